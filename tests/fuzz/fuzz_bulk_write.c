/* Any bytes as a bulkWrite's OP_MSG: read within its bounds; what can be read becomes commands that
 * can be read, no longer than it is, with all its ops. */
#include "tests/fuzz/fuzz.h"

#include "rules/write/bulk_reply.h"
#include "rules/query/bulk_ops.h"

/* One run's command; it serves as a reply too. */
static size_t write_run(const struct bulk_write *bulk, const struct packet *client,
			const struct command *command, size_t first)
{
	const struct bulk_command run = {.run = bulk_write_run(bulk, first), .time_left = -1};
	struct bulk_reply reply = {0};
	struct buffer frame = {0};
	struct packet packet;

	bulk_write_command(bulk, command, &run, &frame);
	require(frame.length <= packet_frame(client).length);
	packet_read(&packet, &frame);
	require(packet.kind == PACKET_MESSAGE && packet.message.sequence_count == 1);
	require(packet.message.sequences[0].count == run.run.count);
	if (bulk_reply_add(&reply, bulk, run.run, &packet))
		bulk_reply_append(&reply, bulk, NULL, &frame, 1);
	buffer_fini(&frame);
	bulk_reply_fini(&reply);
	packet_fini(&packet);
	return run.run.count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buffer frame = {0};
	struct bulk_problem problem;
	struct bulk_write bulk;
	struct command command;
	struct packet packet;

	buffer_append(&frame, data, size);
	packet_read(&packet, &frame);
	if (packet.kind == PACKET_MESSAGE && command_parse(packet.message.body, &command) &&
	    bulk_write_parse(&bulk, &packet, &command, &problem)) {
		for (size_t at = 0; at < bulk.count;)
			at += write_run(&bulk, &packet, &command, at);
		bulk_write_fini(&bulk);
	}
	packet_fini(&packet);
	return 0;
}
