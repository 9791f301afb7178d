/* What the errors of servers mean to those who use a link. */
#include "proxy/upstream/link_inner.h"

#include <stdio.h>

void link_cut_command(char *message)
{
	static const char quotes[] = " to execute command { ";
	char *command = strstr(message, quotes), *colon;

	colon = command ? strchr(command + strlen(quotes), ':') : NULL;
	if (colon && strlen(colon) > strlen(": ... }"))
		memcpy(colon, ": ... }", sizeof(": ... }"));
}

bool link_error_ends(int64_t code)
{
	switch (code) {
	case 91:     /* ShutdownInProgress */
	case 189:    /* PrimarySteppedDown */
	case 10107:  /* NotWritablePrimary */
	case 11600:  /* InterruptedAtShutdown */
	case 11602:  /* InterruptedDueToReplStateChange */
	case 13435:  /* NotPrimaryNoSecondaryOk */
	case 13436:  /* NotPrimaryOrSecondary */
	case 498870: /* the Stable API's version is required */
		return true;
	default:
		return false;
	}
}

bool link_sign_in_failed(const bson_error_t *error, char *reason, size_t size)
{
	if (error->code != LINK_AUTHENTICATION_FAILED)
		return false;
	snprintf(reason, size,
		 "the upstream account can't sign in (%s): look at its user and password in "
		 "upstream.uri, upstream.uri_file or $SPILLWAY_UPSTREAM_URI",
		 error->message);
	return true;
}

/* mongod's errors that may be tried again, and those of a command that was interrupted. */
bool link_error_passes(const struct link_error *error)
{
	static const int64_t codes[] = {
		6,     /* HostUnreachable */
		7,     /* HostNotFound */
		24,    /* LockTimeout */
		43,    /* CursorNotFound */
		46,    /* LockBusy */
		50,    /* MaxTimeMSExpired */
		89,    /* NetworkTimeout */
		90,    /* CallbackCanceled */
		107,   /* LockFailed */
		112,   /* WriteConflict */
		117,   /* ConflictingOperationInProgress */
		134,   /* ReadConcernMajorityNotAvailableYet */
		175,   /* QueryPlanKilled */
		202,   /* NetworkInterfaceExceededTimeLimit */
		208,   /* TooManyLocks */
		210,   /* CannotVerifyAndSignLogicalTime */
		211,   /* KeyNotFound: that of a cluster time */
		215,   /* DatabaseDropPending */
		216,   /* ElectionInProgress */
		237,   /* CursorKilled */
		239,   /* SnapshotTooOld */
		246,   /* SnapshotUnavailable */
		251,   /* NoSuchTransaction */
		261,   /* TooManyLogicalSessions */
		262,   /* ExceededTimeLimit */
		264,   /* TooManyFilesOpen */
		267,   /* PreparedTransactionInProgress */
		276,   /* IndexBuildAborted */
		279,   /* ClientDisconnect */
		285,   /* IndexBuildAlreadyInProgress */
		290,   /* TransactionExceededLifetimeLimitSeconds */
		314,   /* ObjectIsBusy */
		355,   /* InterruptedDueToStorageChange */
		365,   /* TemporarilyUnavailable */
		9001,  /* SocketException */
		11601, /* Interrupted */
		12586, /* BackgroundOperationInProgressForDatabase */
		12587, /* BackgroundOperationInProgressForNamespace */
		14031, /* OutOfDiskSpace */
		46841, /* ClientMarkedKilled */
	};

	for (size_t i = 0; i < ARRAY_LENGTH(codes); i++)
		if (error->code == codes[i])
			return true;
	return error->write_concern || link_error_ends(error->code);
}

enum link_result link_lost_in_passing(const struct link *link, enum link_result result)
{
	return result == LINK_REFUSED && link_error_passes(&link->error) ? LINK_LOST : result;
}

enum link_result link_lost_or_unauthorized(const struct link *link, enum link_result result)
{
	return result == LINK_REFUSED && link->error.code != ERROR_UNAUTHORIZED ? LINK_LOST
										: result;
}

enum link_result link_unless_unauthorized(const struct link *link, enum link_result result)
{
	return result == LINK_REFUSED && link->error.code == ERROR_UNAUTHORIZED ? LINK_DONE
										: result;
}
