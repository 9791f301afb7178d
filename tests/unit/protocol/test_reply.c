/* Tests protocol/reply.c: errors that look like mongod's, and what mongod's replies say. */
#include <bson/bson.h>

#include "tests/unit/samples.h"

#include "protocol/message.h"
#include "protocol/reply.h"

Test(reply, an_error_has_the_fields_that_mongod_writes)
{
	auto_buffer struct buffer body = {0};
	bson_t *bson =
		BCON_NEW("ok", BCON_DOUBLE(0), "errmsg", BCON_UTF8("rule 'books' refuses"), "code",
			 BCON_INT32(115), "codeName", BCON_UTF8("CommandNotSupported"));

	reply_error_body(&body, ERROR_COMMAND_NOT_SUPPORTED, "rule 'books' refuses", NULL);
	assert_bytes(buffer_view(&body), ((struct bytes){bson_get_data(bson), bson->len}));
	bson_destroy(bson);
}

Test(reply, an_error_may_carry_a_label)
{
	auto_buffer struct buffer body = {0};
	bson_t *bson = BCON_NEW("ok", BCON_DOUBLE(0), "errmsg", BCON_UTF8("again"), "code",
				BCON_INT32(112), "codeName", BCON_UTF8("WriteConflict"),
				"errorLabels", "[", BCON_UTF8("TransientTransactionError"), "]");

	reply_error_body(&body, ERROR_WRITE_CONFLICT, "again", "TransientTransactionError");
	assert_bytes(buffer_view(&body), ((struct bytes){bson_get_data(bson), bson->len}));
	bson_destroy(bson);
}

Test(reply, an_error_frame_answers_the_request)
{
	auto_buffer struct buffer frame = {0};
	struct message message;
	struct reply_summary summary;

	reply_error(&frame, 4711, ERROR_BAD_VALUE, "no");
	cr_assert(message_parse(buffer_view(&frame), &message));
	cr_assert_eq(message.header.response_to, 4711);
	cr_assert_eq(message.flags, 0);
	summary = reply_summarise(message.body);
	cr_assert(summary.readable);
	cr_assert_not(summary.ok);
	cr_assert_eq(summary.code, ERROR_BAD_VALUE);
	cr_assert(summary.message.length > 0);
}

Test(reply, every_code_has_the_name_that_mongod_gives_it)
{
	cr_assert_str_eq(error_name(ERROR_UNAUTHORIZED), "Unauthorized");
	cr_assert_str_eq(error_name(ERROR_BAD_VALUE), "BadValue");
	cr_assert_str_eq(error_name(ERROR_FAILED_TO_PARSE), "FailedToParse");
	cr_assert_str_eq(error_name(ERROR_MAX_TIME_EXPIRED), "MaxTimeMSExpired");
	cr_assert_str_eq(error_name(ERROR_WRITE_CONFLICT), "WriteConflict");
	cr_assert_str_eq(error_name(ERROR_OBJECT_TOO_LARGE), "BSONObjectTooLarge");
	cr_assert_str_eq(error_name(ERROR_BSON_OBJECT_TOO_LARGE_TO_UPDATE), "Location17419");
	cr_assert_str_eq(error_name(ERROR_INCOMPLETE_TRANSACTION_HISTORY),
			 "IncompleteTransactionHistory");
	cr_assert_str_eq(error_name(ERROR_TEMPORARILY_UNAVAILABLE), "TemporarilyUnavailable");
	cr_assert_str_eq(error_name(ERROR_READ_CONCERN_NOT_AVAILABLE_YET),
			 "ReadConcernMajorityNotAvailableYet");
}

Test(reply, a_find_reply_is_summed_up)
{
	auto_buffer struct buffer frame = sample("frame/find_reply");
	struct reply_summary summary;

	summary = reply_summarise(body_of(&frame));
	cr_assert(summary.readable);
	cr_assert(summary.ok);
	cr_assert_eq(summary.code, 0);
	cr_assert_eq(summary.n, -1);
	cr_assert_eq(summary.operation_time.length, 8);
	cr_assert(document_valid(summary.cluster_time));
	cr_assert(document_valid(summary.cursor));
	cr_assert_eq(summary.write_errors.length, 0);
}

Test(reply, a_write_error_is_summed_up)
{
	auto_buffer struct buffer frame = sample("frame/write_error");
	struct reply_summary summary;

	summary = reply_summarise(body_of(&frame));
	cr_assert(summary.readable);
	cr_assert(summary.ok);
	cr_assert_eq(summary.n, 0);
	cr_assert(document_valid(summary.write_errors));
	cr_assert_eq(summary.cursor.length, 0);
}

Test(reply, a_field_of_another_type_is_not_there)
{
	auto_buffer struct buffer body = {0};
	struct reply_summary summary;
	size_t start = writer_open(&body);

	writer_string(&body, "ok", "yes");
	writer_string(&body, "code", "5");
	writer_string(&body, "n", "5");
	writer_int64(&body, "operationTime", 5);
	writer_int64(&body, "cursor", 5);
	writer_int64(&body, "$clusterTime", 5);
	writer_int64(&body, "errmsg", 5);
	writer_document(&body, "writeErrors", LITERAL("\5\0\0\0\0"));
	writer_close(&body, start);
	summary = reply_summarise(buffer_view(&body));
	cr_assert(summary.readable);
	cr_assert_not(summary.ok);
	cr_assert_null(summary.message.data);
	cr_assert_eq(summary.code, 0);
	cr_assert_eq(summary.n, -1);
	cr_assert_eq(summary.operation_time.length + summary.cursor.length +
			     summary.cluster_time.length + summary.write_errors.length,
		     0);
}

static bool sums_up(struct bytes body)
{
	struct reply_summary summary = reply_summarise(body);

	if (!summary.readable)
		return false;
	cr_assert(inside(summary.message, body));
	cr_assert(inside(summary.operation_time, body));
	cr_assert(inside(summary.cluster_time, body));
	cr_assert(inside(summary.cursor, body));
	cr_assert(inside(summary.write_errors, body));
	return true;
}

Test(reply, a_broken_reply_is_not_summed_up)
{
	auto_buffer struct buffer frame = sample("frame/write_error");
	struct bytes body = body_of(&frame);

	cr_assert(sums_up(body));
	cr_assert_eq(prefixes_taken(body, sums_up), 0);
	cr_assert_gt(changes_taken(body, sums_up), 0);
}

Test(reply, a_cursor_tells_its_batch_its_id_and_its_time)
{
	auto_buffer struct buffer body = {0};
	const char *const names[] = {"firstBatch", "nextBatch"};
	struct reply_cursor cursor;
	int64_t id;

	for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
		size_t start;

		body.length = 0;
		start = writer_open(&body);
		writer_array(&body, names[i], LITERAL("\5\0\0\0\0"));
		writer_int64(&body, "id", 5);
		writer_string(&body, "ns", "shop.books");
		writer_int32(&body, "atClusterTime", 7);
		writer_close(&body, start);
		cursor = reply_read_cursor(buffer_view(&body));
		assert_bytes(cursor.batch, LITERAL("\5\0\0\0\0"));
		cr_assert(element_integer(&cursor.id, &id));
		cr_assert_eq(id, 5);
		cr_assert(element_is(&cursor.time, "atClusterTime"));
	}
}

Test(reply, a_cursor_that_cannot_be_read_tells_nothing)
{
	auto_buffer struct buffer body = {0};
	struct reply_cursor cursor = reply_read_cursor((struct bytes){0});
	size_t start = writer_open(&body);

	cr_assert_null(cursor.batch.data);
	writer_int64(&body, "id", 5);
	writer_document(&body, "firstBatch", LITERAL("\5\0\0\0\0"));
	writer_close(&body, start);
	cursor = reply_read_cursor(buffer_view(&body));
	cr_assert_null(cursor.batch.data);
	cr_assert_eq(cursor.id.type, BSON_BYTE_INT64);
	cr_assert_eq(cursor.time.type, 0);
	body.data[start + 4 + 4 + 8] = 0x55; /* the second element's type: there is none such */
	cursor = reply_read_cursor(buffer_view(&body));
	cr_assert_null(cursor.batch.data);
	cr_assert_eq(cursor.id.type, 0);
}

Test(reply, a_cursor_with_two_batches_has_none)
{
	auto_buffer struct buffer body = {0};
	struct reply_cursor cursor;
	size_t start = writer_open(&body);

	writer_close(&body, writer_open_array(&body, "firstBatch"));
	writer_int64(&body, "id", 5);
	writer_close(&body, writer_open_array(&body, "nextBatch"));
	writer_close(&body, start);
	cursor = reply_read_cursor(buffer_view(&body));
	cr_assert_null(cursor.batch.data);
	cr_assert_eq(cursor.id.type, BSON_BYTE_INT64);
}
