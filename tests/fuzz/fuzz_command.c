/* Any bytes as a command's or reply's body: read within its bounds, edited only where it is to be.
 */
#include "tests/fuzz/fuzz.h"

#include "protocol/command.h"
#include "protocol/hello.h"
#include "protocol/reply.h"

static void read_command(struct bytes body)
{
	struct command command;

	if (!command_parse(body, &command))
		return;
	require_inside(element_raw(&command.first), body);
	require_inside(command.collection, body);
	require_inside(command.database, body);
	for (enum command_field i = 0; i < FIELD_COUNT; i++)
		if (command_has(&command, i))
			require_inside(element_raw(&command.fields[i]), body);
}

static void read_reply(struct bytes body)
{
	struct reply_summary summary = reply_summarise(body);

	if (!summary.readable)
		return;
	require_inside(summary.message, body);
	require_inside(summary.operation_time, body);
	require_inside(summary.cluster_time, body);
	require_inside(summary.cursor, body);
	require_inside(summary.write_errors, body);
}

/* Members whose name has an odd length are not known; the others get a name by their length. */
static bool find_member(const void *context, struct bytes member, struct bytes *advertised)
{
	(void)context;
	*advertised = (struct bytes){(const uint8_t *)"db.example.net:27017", member.length % 20};
	return member.length % 2 == 0;
}

static void require_edited(struct bytes body, bool edited, const struct buffer *out)
{
	require(edited || out->length == 0);
	if (edited && document_valid(body))
		require(document_valid(buffer_view(out)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct hello_map map = {find_member, NULL};
	struct bytes body = {data, size}, name;
	auto_buffer struct buffer request = {0};
	auto_buffer struct buffer reply = {0};

	read_command(body);
	read_reply(body);
	require_edited(body, hello_edit_request(body, true, &request), &request);
	require_edited(body, hello_edit_reply(body, &map, &reply), &reply);
	if (hello_own_name(body, &name))
		require_inside(name, body);
	return 0;
}
