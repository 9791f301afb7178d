/* Tests protocol/skim.c: what is kept of a message that goes by. */
#include "tests/unit/wire_make.h"

#include "protocol/skim.h"

#define KEPT \
	"'lsid': {'id': 1}, 'txnNumber': 5, 'autocommit': false, 'startTransaction': true, " \
	"'apiVersion': '1', 'apiStrict': true, 'apiDeprecationErrors': false, '$db': 'shop'"

/* The frame in pieces of this size -> what was kept; empty where it could not be read. */
static struct bytes skimmed(struct bytes frame, size_t piece)
{
	struct skim *skim = skim_new();
	auto_buffer struct buffer kept = {0};
	bool read;

	for (size_t at = 0; at < frame.length; at += piece) {
		size_t left = frame.length - at;

		skim_take(skim,
			  made_copy((struct bytes){frame.data + at, left < piece ? left : piece}));
	}
	read = skim_end(skim, &kept);
	skim_free(skim);
	return read ? made_copy(buffer_view(&kept)) : (struct bytes){0};
}

static struct bytes frame_of(const struct made *made)
{
	auto_buffer struct buffer frame = made_frame(made);

	return made_copy(buffer_view(&frame));
}

/* An array of 3,000 bytes and a text of as many, as JSON. */
static const char *long_fields(void)
{
	return made_text("'documents': [{'text': '%03000d', 'lsid': 2}], 'comment': '%03000d'", 0,
			 0);
}

static void expect_kept(const struct made *made, const char *body)
{
	struct bytes frame = frame_of(made);

	for (size_t piece = 1; piece <= frame.length; piece += piece < 30 ? 1 : 997) {
		struct bytes kept = skimmed(frame, piece);
		struct message message;

		cr_assert(kept.length > 0 && message_parse(kept, &message), "pieces of %zu", piece);
		cr_assert_eq(message.header.request_id, 77);
		cr_assert_eq(message.flags, made->flags);
		made_expect(message.body, body);
	}
}

Test(skim, long_fields_go_by_wherever_they_stand)
{
	expect_kept(&(struct made){.id = 77,
				   .body = made_text("{'insert': 'books', %s, " KEPT "}",
						     long_fields())},
		    "{'insert': 'books', " KEPT "}");
	expect_kept(&(struct made){.id = 77,
				   .flags = MESSAGE_MORE_TO_COME,
				   .body = made_text("{'insert': 'books', " KEPT ", %s}",
						     long_fields())},
		    "{'insert': 'books', " KEPT "}");
	expect_kept(&(struct made){.id = 77,
				   .body = made_text("{'insert': 'books', %s, 'ordered': true}",
						     long_fields())},
		    "{'insert': 'books'}");
}

Test(skim, document_sequences_go_by)
{
	expect_kept(&(struct made){.id = 77,
				   .body = "{'insert': 'books', 'x': {'$regex': 'a', '$options': "
					   "'i'}, " KEPT "}",
				   .sequence = "documents",
				   .documents = made_text("[{'x': '%02000d'}]", 0)},
		    "{'insert': 'books', " KEPT "}");
}

Test(skim, the_body_may_come_last)
{
	struct bytes frame =
		frame_of(&(struct made){.id = 77,
					.body = "{'insert': 'books', " KEPT "}",
					.sequence = "documents",
					.documents = made_text("[{'x': '%02000d'}]", 0)});
	size_t body = 5 + made_bson("{'insert': 'books', " KEPT "}").length - 4;
	auto_buffer struct buffer turned = {0};

	buffer_append(&turned, frame.data, 20);
	buffer_append(&turned, frame.data + 20 + body, frame.length - 20 - body);
	buffer_append(&turned, frame.data + 20, body);
	for (size_t piece = 1; piece < 40; piece++) {
		struct bytes kept = skimmed(buffer_view(&turned), piece);
		struct message message;

		cr_assert(kept.length > 0 && message_parse(kept, &message), "pieces of %zu", piece);
		made_expect(message.body, "{'insert': 'books', " KEPT "}");
	}
}

Test(skim, what_cannot_be_read_is_not_guessed)
{
	struct bytes whole = frame_of(&(struct made){
		.id = 77, .body = made_text("{'insert': 'books', %s, " KEPT "}", long_fields())});

	cr_assert_eq(skimmed(frame_of(&(struct made){.body = "{'ping': 1}",
						     .packed = true,
						     .compressor = COMPRESSOR_ZLIB}),
			     1)
			     .length,
		     0);
	for (size_t length = 0; length < whole.length; length += 7)
		cr_assert_eq(skimmed((struct bytes){whole.data, length}, 5).length, 0, "%zu",
			     length);
	cr_assert_gt(skimmed(whole, 5).length, 0);
}

/* No length that is claimed may be believed beyond what the message holds. */
Test(skim, wrong_lengths_are_survived)
{
	struct bytes whole = frame_of(&(struct made){
		.id = 77, .body = made_text("{'insert': 'books', %s, " KEPT "}", long_fields())});
	auto_buffer struct buffer broken = {0};

	for (size_t at = 12; at < 3300 && at + 4 < whole.length; at++)
		for (int32_t claim = -1; claim < 3; claim++) {
			broken.length = 0;
			buffer_append(&broken, whole.data, whole.length);
			store_int32(broken.data + at, claim == 2 ? INT32_MAX : claim);
			(void)skimmed(buffer_view(&broken), 512);
		}
}
