/* What the log says of clients that are refused or closed: one line a minute of each kind. */
#include "proxy/client/session.h"

#include "proxy/base/clock.h"
#include "proxy/base/log.h"
#include "protocol/hello.h"

#include <stdio.h>
#include <stdlib.h>

#define APPLICATION_MOST 64 /* bytes of a name that are kept */

/* The message's number, and what follows the client's address. */
static const char *const what_happened[STRANGERS_KINDS] = {
	[STRANGER_TLS] =
		"2030 speaks TLS, and this listener does not; give the listener tls, or let "
		"the client connect without: closed",
	[STRANGER_HTTP] = "2031 speaks HTTP; only MongoDB clients can connect here: closed",
	[STRANGER_PROXIED] =
		"2032 begins with a header of the PROXY protocol, but is not listed in "
		"'proxy_protocol_from': closed",
	[STRANGER_UNKNOWN] = "2033 does not begin with a message of a MongoDB client",
	[STRANGERS_LATER] = "2034 sent a message that no MongoDB client sends, or that cannot be "
			    "refused otherwise",
	[STRANGERS_PLAIN] = "2035 does not speak TLS, which this listener needs; give the client "
			    "tls=true: closed",
	[STRANGERS_UNSECURED] = "2036 failed in the handshake of TLS",
	[STRANGERS_SILENT] = "2037 closed: no request within limits.handshake",
	[STRANGERS_LOGIN] = "2038 closed: it tried to sign in, without success within limits.login",
	[STRANGERS_PROGRESS] = "2039 closed: nothing came of the rest of a request within "
			       "limits.progress",
	[STRANGERS_CONNECTIONS] = "2040 refused: limits.connections is reached",
	[STRANGERS_ADDRESS] = "2041 refused: limits.connections_per_address is reached",
	[STRANGERS_MEMORY] = "2042 refused a request with error 365: no memory is left for it "
			     "(limits.memory)",
	[STRANGERS_BEFORE_LOGIN] =
		"2043 closed: it has not signed in, and sent a request that has to "
		"be held and is larger than limits.before_login",
	[STRANGERS_CROWD] = "2044 closed: connections that have not signed in hold a quarter of "
			    "limits.memory, and this one the most",
	[STRANGERS_COMPRESSOR] =
		"2045 closed: it uses a compressor that the server has not agreed to "
		"on this connection",
	[STRANGERS_UNPROXIED] =
		"2047 closed: it is listed in 'proxy_protocol_from', and does not begin "
		"with a header of the PROXY protocol",
	[STRANGERS_GREETINGS] =
		"2048 waits: connections that have not signed in ask for hello, or try to sign "
		"in, more than 1,000 times a second",
	[STRANGERS_SHED] = "2049 closed: limits.connections is reached, and its address has the "
			   "most connections that have not signed in",
	[STRANGERS_UNREAD] = "2046 closed: it does not take its replies, and memory is short "
			     "(limits.memory)",
};

#define WHO_TEXT 700

/* "127.0.0.1:4711 (appName 'shop', driver 'PyMongo 4.8.0')" */
static const char *who(const struct session *session, char text[WHO_TEXT])
{
	const struct session_peer *peer = &session->peer;
	const char *application = peer->application, *driver = peer->driver;
	char address[PEER_TEXT];

	snprintf(text, WHO_TEXT, "%s%s%s%s%s%s%s%s", peer_text(&peer->address, address),
		 application || driver ? " (" : "", application ? "appName '" : "",
		 application ? application : "",
		 application ? (driver ? "', driver '" : "'") : (driver ? "driver '" : ""),
		 driver ? driver : "", driver ? "'" : "", application || driver ? ")" : "");
	return text;
}

void session_describe(const struct session *session, bson_t *details)
{
	const struct session_peer *peer = &session->peer;
	char address[PEER_TEXT];

	BSON_APPEND_UTF8(details, "remote", peer_text(&peer->address, address));
	if (peer->application)
		BSON_APPEND_UTF8(details, "appName", peer->application);
	if (peer->driver)
		BSON_APPEND_UTF8(details, "driver", peer->driver);
}

/* `more`: the rest of the line, behind the words of its kind. */
static void tell(struct session *session, unsigned kind, const char *more)
{
	const char *what = what_happened[kind];
	bson_t *details;
	char context[32], text[WHO_TEXT];
	struct log_event event = {.level = kind == STRANGERS_SILENT ? CONFIG_LOG_INFO
								    : CONFIG_LOG_WARNING,
				  .id = atoi(what),
				  .context = context};
	int64_t held;

	if (!strangers_due(&session->loop->service->strangers, kind, uv_now(&session->loop->uv),
			   &held))
		return;
	details = bson_new();
	session_describe(session, details);
	event.details = details;
	snprintf(context, sizeof(context), "conn%llu", (unsigned long long)session->id);
	log_event(&event,
		  "session %llu: connection from %s%s%s (%lld more like it since the last line)",
		  (unsigned long long)session->id, who(session, text), what + strcspn(what, " "),
		  more, (long long)held);
	bson_destroy(details);
}

void session_tell(struct session *session, enum strangers_kind kind)
{
	tell(session, kind, "");
}

void session_tell_stranger(struct session *session, unsigned kind,
			   const struct frame_header *header)
{
	struct metrics *metrics = session->loop->metrics;
	char more[80] = "";

	if (kind == STRANGER_TLS)
		metric_add(&metrics->connections_tls, 1);
	else
		metric_add(&metrics->connections_strange, 1);
	if (header && (kind == STRANGER_UNKNOWN || kind == STRANGERS_LATER))
		snprintf(more, sizeof(more), " (opcode %d, length %d): closed", (int)header->opcode,
			 (int)header->length);
	tell(session, kind, more);
}

void session_tell_unsecured(struct session *session, const char *failure)
{
	char more[200];

	if (session->client.tls && tls_met_plain(session->client.tls)) {
		metric_add(&session->loop->metrics->connections_plain, 1);
		session_tell(session, STRANGERS_PLAIN);
		return;
	}
	snprintf(more, sizeof(more), ": %.120s: closed", failure);
	tell(session, STRANGERS_UNSECURED, more);
}

/* ---- Requests that are refused. */

#define REFUSED_LIMITS 64

/* Of refusals with the same rule and operator; some share one by chance. */
static struct log_limit *refused_limit(const char *rule, const char *what)
{
	static struct log_limit limits[REFUSED_LIMITS];
	unsigned hash = 5381;

	for (const char *at = rule; *at; at++)
		hash = hash * 33 + (unsigned char)*at;
	for (const char *at = what; *at; at++)
		hash = hash * 33 + (unsigned char)*at;
	return &limits[hash % REFUSED_LIMITS];
}

static void describe_refusal(const struct match *match, const struct session_refusal *refusal,
			     bson_t *details)
{
	struct bytes name = match->command.first.name;

	bson_append_utf8(details, "command", -1, (const char *)name.data, (int)name.length);
	if (match->namespace) {
		auto_free char *ns = bson_strdup_printf("%s.%s", match->namespace->database,
							match->namespace->collection);

		BSON_APPEND_UTF8(details, "ns", ns);
	}
	BSON_APPEND_UTF8(details, "rule", refusal->rule);
	BSON_APPEND_UTF8(details, "operator", refusal->what);
	BSON_APPEND_INT32(details, "code", refusal->code);
}

/* The words that the client hears may quote values, so they are left out. */
void session_tell_refusal(struct session *session, const struct match *match,
			  const struct session_refusal *refusal)
{
	struct bytes name = match->command.first.name;
	char context[32], text[WHO_TEXT], more[80] = "";
	struct log_event event = {.level = CONFIG_LOG_INFO, .id = 3002, .context = context};
	bson_t *details;
	int64_t held;

	if (!log_wants(event.level) ||
	    !log_limit_due(refused_limit(refusal->rule, refusal->what), clock_now(), &held))
		return;
	details = bson_new();
	describe_refusal(match, refusal, details);
	session_describe(session, details);
	event.details = details;
	snprintf(context, sizeof(context), "conn%llu", (unsigned long long)session->id);
	if (held > 0)
		snprintf(more, sizeof(more), " (%lld more like it since the last line)",
			 (long long)held);
	log_event(&event, "session %llu: '%.*s' refused with %d %s: %s; rule '%s'; asked by %s%s",
		  (unsigned long long)session->id, (int)name.length, (const char *)name.data,
		  (int)refusal->code, error_name(refusal->code), refusal->what, refusal->rule,
		  who(session, text), more);
	bson_destroy(details);
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

/* "PyMongo 4.8.0"; some drivers tell no version. */
static char *driver_of(struct bytes hello)
{
	auto_buffer struct buffer text = {0};
	struct bytes part;

	if (!document_find_string(hello, "client.driver.name", &part) || part.length == 0)
		return NULL;
	buffer_append(&text, part.data, least(part.length, APPLICATION_MOST / 2));
	if (document_find_string(hello, "client.driver.version", &part)) {
		buffer_append(&text, " ", 1);
		buffer_append(&text, part.data, least(part.length, APPLICATION_MOST / 2 - 1));
	}
	return escaped(buffer_view(&text));
}

void session_note_application(struct session *session, struct bytes hello)
{
	struct bytes name;

	if (!session->peer.application &&
	    document_find_string(hello, "client.application.name", &name) && name.length > 0)
		session->peer.application = escaped(name);
	if (!session->peer.driver)
		session->peer.driver = driver_of(hello);
	if (!session->peer.entry && (session->peer.application || session->peer.driver))
		session->peer.entry = clients_join(session->peer.application, session->peer.driver,
						   &session->peer.address);
}
