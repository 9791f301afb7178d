/* Judges commands that sign in by their mechanism. */
#include "rules/match/sign_in.h"

#include "protocol/cursor.h"
#include "rules/match/match_inner.h"

/* A field that stands twice counts each time: which one mongod reads does not matter then. */
static bool has_mechanism(struct bytes body, const char *mechanism)
{
	struct cursor cursor;
	struct element element;
	struct bytes text;

	if (!cursor_open(&cursor, body))
		return false;
	while (cursor_next(&cursor, &element) == CURSOR_ELEMENT)
		if (element_is(&element, "mechanism") && element_string(&element, &text) &&
		    bytes_are(text, mechanism))
			return true;
	return false;
}

void sign_in_judge(struct match *match, struct sign_in_way way)
{
	const struct command *command = &match->command;

	if (command->kind != COMMAND_SIGN_IN || match->verdict != VERDICT_FORWARD)
		return;
	/* `authenticate` serves MONGODB-X509 alone, by whatever name. */
	if (way.server_tls && (element_is(&command->first, "authenticate") ||
			       has_mechanism(command->body, "MONGODB-X509")))
		match_refuse_limit(
			match, ERROR_AUTHENTICATION_FAILED, "MONGODB-X509",
			"Spillway: MONGODB-X509 cannot pass: Spillway ends the client's TLS "
			"connection, so the server would see Spillway's certificate instead of the "
			"client's; sign in with SCRAM-SHA-256");
	else if (!(way.client_tls && way.server_tls) && has_mechanism(command->body, "PLAIN"))
		match_refuse_limit(match, ERROR_AUTHENTICATION_FAILED, "PLAIN",
				   "Spillway: PLAIN sends the password as it is, so it needs TLS "
				   "from the client to Spillway (listen.tls) and from there to the "
				   "server (servers.tls)");
}
