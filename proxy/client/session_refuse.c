/* Requests that are answered with an error before anybody looks at them: those of a refused
 * connection, and those that there is no memory for. */
#include "proxy/client/session.h"

#include "proxy/base/log.h"

#include <stdio.h>

static void request_write_why(const struct session *session, char *message, size_t size)
{
	const struct config_limits *limits = &session->loop->service->config->limits;
	char reason[400];

	if (session->admission == SESSION_TOO_MANY) {
		snprintf(message, size,
			 "Spillway has reached its limit of %lld connections (limits.connections); "
			 "try again later",
			 (long long)limits->connections);
	} else if (session->admission == SESSION_TOO_MANY_THERE) {
		snprintf(message, size,
			 "Spillway has reached its limit of %lld connections from one address "
			 "(limits.connections_per_address); try again later",
			 (long long)limits->connections_per_address);
	} else {
		mover_not_ready(session->loop->service->mover, reason, sizeof(reason));
		snprintf(message, size, "Spillway is not ready; try again later: %s", reason);
	}
}

/* The first request is answered with an error, and that is all. */
void request_refuse_connection(struct session *session, struct buffer *frame)
{
	struct packet packet;
	struct match match = {.verdict = VERDICT_REFUSE,
			      .refusal = {.code = ERROR_TEMPORARILY_UNAVAILABLE, .rule = ""}};

	request_write_why(session, match.refusal.message, sizeof(match.refusal.message));
	packet_read(&packet, frame);
	if (packet.kind == PACKET_MESSAGE)
		session_note_application(session, packet.message.body);
	if (session->admission != SESSION_TOO_EARLY)
		session_tell(session, session->admission == SESSION_TOO_MANY ? STRANGERS_CONNECTIONS
									     : STRANGERS_ADDRESS);
	metric_add(&session->loop->metrics->connections_refused, 1);
	request_start_sequence(session, sequence_new(&packet, &match));
	packet_fini(&packet);
	session_close(session, SESSION_END_DONE);
}

/* `frame` has what was kept of it. False where it can't be read. */
static bool request_refuse_shed(struct session *session, struct buffer *frame)
{
	struct packet packet;
	struct match match = {.verdict = VERDICT_REFUSE,
			      .refusal = {.code = ERROR_TEMPORARILY_UNAVAILABLE, .rule = ""}};
	bool read;

	snprintf(match.refusal.message, sizeof(match.refusal.message), "%s", SEQUENCE_NO_MEMORY);
	packet_read(&packet, frame);
	read = command_parse(packet.message.body, &match.command);
	if (read)
		request_start_sequence(session, sequence_new(&packet, &match));
	packet_fini(&packet);
	return read;
}

/* The frame is gone; its sender is told, and its transaction ended. Where nothing is known of it,
 * as when it came compressed, its sender may not be told that it can go on. */
void request_on_shed(struct session *session)
{
	static struct log_limit closed;
	auto_buffer struct buffer frame = {0};
	bool known = skim_end(session->request.shed, &frame);

	skim_free(session->request.shed);
	session->request.shed = NULL;
	metric_add(&session->loop->metrics->commands_refused, 1);
	session_tell(session, STRANGERS_MEMORY);
	if (known && session_is_refused(session)) {
		request_refuse_connection(session, &frame);
	} else if (!known || !request_refuse_shed(session, &frame)) {
		log_limited(&closed, CONFIG_LOG_INFO,
			    "2013 session %llu: closed: no memory is left for a request "
			    "(limits.memory), "
			    "and of what went by could not be told whether it ends a transaction",
			    (unsigned long long)session->id);
		session_close(session, SESSION_END_DONE);
	}
}
