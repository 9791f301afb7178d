/* What the log says of clients that are refused or closed: one line a minute of each kind. */
#include "proxy/client/session.h"

#include "proxy/base/log.h"
#include "protocol/hello.h"

#include <stdio.h>
#include <stdlib.h>

#define APPLICATION_MOST 64 /* bytes of a name that are kept */

/* What follows the client's address. */
static const char *const what_happened[STRANGERS_KINDS] = {
	[STRANGER_TLS] = "speaks TLS, and this listener does not; give the listener tls, or let "
			 "the client connect without: closed",
	[STRANGER_HTTP] = "speaks HTTP; only MongoDB clients can connect here: closed",
	[STRANGER_PROXIED] = "begins with a header of the PROXY protocol, but is not listed in "
			     "'proxy_protocol_from': closed",
	[STRANGER_UNKNOWN] = "does not begin with a message of a MongoDB client",
	[STRANGERS_LATER] = "sent a message that no MongoDB client sends, or that cannot be "
			    "refused otherwise",
	[STRANGERS_PLAIN] = "does not speak TLS, which this listener needs; give the client "
			    "tls=true: closed",
	[STRANGERS_SILENT] = "closed: no request within limits.handshake",
	[STRANGERS_LOGIN] = "closed: it tried to sign in, without success within limits.login",
	[STRANGERS_PROGRESS] = "closed: nothing came of the rest of a request within "
			       "limits.progress",
	[STRANGERS_CONNECTIONS] = "refused: limits.connections is reached",
	[STRANGERS_ADDRESS] = "refused: limits.connections_per_address is reached",
	[STRANGERS_MEMORY] = "refused a request with error 365: no memory is left for it "
			     "(limits.memory)",
	[STRANGERS_BEFORE_LOGIN] = "closed: it has not signed in, and sent a request that has to "
				   "be held and is larger than limits.before_login",
	[STRANGERS_CROWD] = "closed: connections that have not signed in hold a quarter of "
			    "limits.memory, and this one the most",
	[STRANGERS_COMPRESSOR] = "closed: it uses a compressor that the server has not agreed to "
				 "on this connection",
	[STRANGERS_UNPROXIED] = "closed: it is listed in 'proxy_protocol_from', and does not begin "
				"with a header of the PROXY protocol",
	[STRANGERS_UNREAD] = "closed: it does not take its replies, and memory is short "
			     "(limits.memory)",
};

static void tell(struct session *session, unsigned kind, const char *what)
{
	const struct session_peer *peer = &session->peer;
	char address[PEER_TEXT];
	int64_t held;

	if (!strangers_due(&session->loop->service->strangers, kind, uv_now(&session->loop->uv),
			   &held))
		return;
	(kind == STRANGERS_SILENT ? log_info : log_warning)(
		"session %llu: connection from %s%s%s%s %s (%lld more like it since the last line)",
		(unsigned long long)session->id, peer_text(&peer->address, address),
		peer->application ? " (appName '" : "", peer->application ? peer->application : "",
		peer->application ? "')" : "", what, (long long)held);
}

void session_tell(struct session *session, enum strangers_kind kind)
{
	tell(session, kind, what_happened[kind]);
}

void session_tell_stranger(struct session *session, unsigned kind,
			   const struct frame_header *header)
{
	struct metrics *metrics = session->loop->metrics;
	char what[200];

	if (kind == STRANGER_TLS)
		metric_add(&metrics->connections_tls, 1);
	else
		metric_add(&metrics->connections_strange, 1);
	if (header && (kind == STRANGER_UNKNOWN || kind == STRANGERS_LATER)) {
		snprintf(what, sizeof(what), "%s (opcode %d, length %d): closed",
			 what_happened[kind], (int)header->opcode, (int)header->length);
		tell(session, kind, what);
	} else {
		tell(session, kind, what_happened[kind]);
	}
}

void session_tell_unsecured(struct session *session, const char *failure)
{
	char what[200];

	if (session->client.tls && tls_met_plain(session->client.tls)) {
		metric_add(&session->loop->metrics->connections_plain, 1);
		session_tell(session, STRANGERS_PLAIN);
		return;
	}
	snprintf(what, sizeof(what), "failed in the handshake of TLS: %.120s: closed", failure);
	tell(session, STRANGERS_UNSECURED, what);
}

/* As it may stand in the log, in quotes. */
static char *escaped(struct bytes name)
{
	char *text = must_malloc(4 * APPLICATION_MOST + 1), *at = text;

	for (size_t i = 0; i < least(name.length, APPLICATION_MOST); i++) {
		uint8_t byte = name.data[i];

		if (byte >= ' ' && byte < 0x7f && byte != '\'' && byte != '\\')
			*at++ = (char)byte;
		else
			at += sprintf(at, "\\x%02x", byte);
	}
	*at = '\0';
	return must_realloc(text, (size_t)(at - text) + 1);
}

void session_note_application(struct session *session, struct bytes hello)
{
	struct bytes name;

	if (!session->peer.application &&
	    document_find_string(hello, "client.application.name", &name) && name.length > 0)
		session->peer.application = escaped(name);
}
