/* Who connects and is no MongoDB client: told by the first bytes of a connection. */
#include "protocol/stranger.h"

#define TLS_HANDSHAKE 0x16
#define TLS_MAJOR 0x03

static bool speaks_http(struct bytes start)
{
	static const char *const verbs[] = {"GET ",     "HEAD ",    "POST ",  "PUT ",  "DELETE ",
					    "OPTIONS ", "CONNECT ", "PATCH ", "PRI * "};

	for (size_t i = 0; i < ARRAY_LENGTH(verbs); i++)
		if (bytes_begin_with(start, verbs[i]))
			return true;
	return false;
}

enum stranger stranger_of(struct bytes start)
{
	if (start.length >= 2 && start.data[0] == TLS_HANDSHAKE && start.data[1] == TLS_MAJOR)
		return STRANGER_TLS;
	if (speaks_http(start))
		return STRANGER_HTTP;
	if (bytes_begin_with(start, "PROXY ") || bytes_begin_with(start, "\r\n\r\n"))
		return STRANGER_PROXIED;
	return STRANGER_UNKNOWN;
}

must_check bool stranger_knows_opcode(int32_t opcode)
{
	switch (opcode) {
	case OPCODE_MESSAGE:
	case OPCODE_QUERY:
	case OPCODE_COMPRESSED:
	case OPCODE_GET_MORE:
	case OPCODE_UPDATE:
	case OPCODE_INSERT:
	case OPCODE_DELETE:
	case OPCODE_KILL_CURSORS:
		return true;
	default:
		return false;
	}
}

must_check bool stranger_may_begin(const struct frame_header *header)
{
	return (header->response_to == 0 || header->response_to == -1) &&
	       (header->opcode == OPCODE_MESSAGE || header->opcode == OPCODE_QUERY ||
		header->opcode == OPCODE_COMPRESSED);
}
