/* Tests protocol/packet.c: a frame that we own, unpacked and read. */
#include "tests/unit/samples.h"
#include "tests/unit/wire_make.h"

#include "protocol/checksum.h"
#include "protocol/packet.h"

static struct packet read_sample(const char *name)
{
	auto_buffer struct buffer frame = sample(name);
	struct packet packet;

	packet_read(&packet, &frame);
	cr_assert_null(frame.data, "the frame was taken over");
	return packet;
}

Test(packet, a_reply_is_summarised_and_one_that_cannot_be_read_says_nothing)
{
	auto_buffer struct buffer good = sample("frame/find_reply"), bad = {0};
	struct packet packet;

	packet_read_reply(&packet, &good);
	cr_assert(packet.summary.ok);
	cr_assert(inside(packet.summary.cursor, packet_frame(&packet)));
	buffer_append(&bad, packet.raw.data, packet.raw.length);
	bad.data[FRAME_HEADER_LENGTH + 4 + 1 + 4] = 0x55; /* the type of the first field */
	packet_fini(&packet);
	packet_read_reply(&packet, &bad);
	cr_assert_eq(packet.kind, PACKET_MESSAGE);
	cr_assert_not(packet.summary.readable || packet.summary.ok);
	cr_assert_eq(packet.summary.n, -1);
	packet_fini(&packet);
}

Test(packet, a_plain_message_is_read_where_it_stands)
{
	struct packet packet = read_sample("message/update_sequence");

	cr_assert_eq(packet.kind, PACKET_MESSAGE);
	cr_assert_not(packet_compressed(&packet));
	cr_assert(inside(packet.message.body, buffer_view(&packet.raw)));
	cr_assert_eq(packet.header.opcode, OPCODE_MESSAGE);
	packet_fini(&packet);
}

Test(packet, a_compressed_message_is_read_as_if_it_came_plain)
{
	static const char *const names[] = {"compressed/reply_snappy", "compressed/reply_zlib",
					    "compressed/reply_zstd"};

	for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
		struct packet packet = read_sample(names[i]);

		cr_assert_eq(packet.kind, PACKET_MESSAGE);
		cr_assert(packet_compressed(&packet));
		cr_assert_eq(packet.compressor, COMPRESSOR_SNAPPY + i);
		cr_assert_eq(packet.header.opcode, OPCODE_MESSAGE);
		cr_assert(inside(packet.message.body, packet_frame(&packet)));
		packet_fini(&packet);
	}
}

/* Wherever its bytes are looked into, or if they go out as they are. */
Test(packet, a_renamed_packet_has_its_id_everywhere)
{
	for (int packed = 0; packed < 2; packed++) {
		struct made made = {.body = "{'ping': 1, '$db': 'admin'}",
				    .packed = packed,
				    .compressor = COMPRESSOR_SNAPPY,
				    .checksum = true};
		struct packet packet = made_packet(made_frame(&made)), sent;
		struct frame_header header;
		struct element ping;

		cr_assert(document_find(packet.message.body, "ping", &ping));
		store_int32((uint8_t *)(uintptr_t)ping.value.data, 5);
		packet_rename(&packet, 0x12345678);
		cr_assert_eq(packet.header.request_id, 0x12345678);
		cr_assert_eq(packet.message.header.request_id, 0x12345678);
		cr_assert_eq(frame_next(buffer_view(&packet.raw), &header), FRAME_READY);
		cr_assert_eq(header.request_id, 0x12345678);
		cr_assert_eq(frame_next(packet_frame(&packet), &header), FRAME_READY);
		cr_assert_eq(header.request_id, 0x12345678);
		cr_assert(checksum_matches(packet_frame(&packet)));
		packet_read(&sent, &packet.raw);
		cr_assert_eq(sent.kind, PACKET_MESSAGE);
		cr_assert_eq(packet_compressed(&sent), packed == 1);
		cr_assert(checksum_matches(packet_frame(&sent)));
		cr_assert(document_find(sent.message.body, "ping", &ping));
		cr_assert_eq(load_int32(ping.value.data), 5);
		packet_fini(&sent);
		packet_fini(&packet);
	}
}

Test(packet, another_opcode_is_kept_unread)
{
	struct packet packet = read_sample("frame/query_hello");

	cr_assert_eq(packet.kind, PACKET_OTHER);
	cr_assert_eq(packet.header.opcode, OPCODE_QUERY);
	packet_fini(&packet);
}

Test(packet, what_cannot_be_read_is_broken)
{
	auto_buffer struct buffer compressed = sample("compressed/reply_zlib");
	auto_buffer struct buffer message = sample("frame/find_reply");
	auto_buffer struct buffer nothing = {0};
	struct buffer *broken[] = {&compressed, &message, &nothing};

	compressed.data[20]++;  /* the claimed length */
	message.data[20] = 200; /* the kind of a section */
	for (size_t i = 0; i < ARRAY_LENGTH(broken); i++) {
		struct packet packet;

		packet_read(&packet, broken[i]);
		cr_assert_eq(packet.kind, PACKET_BROKEN);
		packet_fini(&packet);
	}
}

Test(packet, a_stolen_packet_has_one_owner)
{
	struct packet first = read_sample("compressed/reply_zstd");
	struct packet second = packet_steal(&first);

	packet_fini(&first);
	cr_assert_eq(second.kind, PACKET_MESSAGE);
	cr_assert(document_length(second.message.body) > 0);
	packet_fini(&second);
}

Test(packet, a_moved_packet_has_one_owner_and_takes_its_summary_along)
{
	auto_buffer struct buffer frame = sample("frame/find_reply");
	struct packet first, second = {0};

	packet_read_reply(&first, &frame);
	packet_move(&second, &first);
	cr_assert_null(first.raw.data);
	cr_assert_null(first.message.body.data);
	cr_assert_null(first.summary.cursor.data);
	packet_fini(&first);
	cr_assert(second.summary.ok);
	cr_assert(inside(second.summary.cursor, packet_frame(&second)));
	packet_fini(&second);
	cr_assert_null(second.summary.cursor.data);
	packet_fini(&second);
}
