/* Tests protocol/hello.c: of a handshake, nothing changes but compressors and addresses. */
#include "tests/unit/samples.h"
#include "tests/unit/wire_make.h"

#include "protocol/hello.h"
#include "protocol/writer.h"

/* {hello: 1, compression: [<the names, up to an empty one>], helloOk: true} */
static void request(struct buffer *body, const char *const *names)
{
	size_t start = writer_open(body), list;
	char index[12];

	writer_int32(body, "hello", 1);
	list = writer_open_array(body, "compression");
	for (size_t i = 0; *names[i]; i++)
		writer_string(body, writer_index(index, i), names[i]);
	writer_close(body, list);
	writer_bool(body, "helloOk", true);
	writer_close(body, start);
}

static void assert_request(const char *const *offered, const char *const *left)
{
	auto_buffer struct buffer body = {0};
	auto_buffer struct buffer expected = {0};
	auto_buffer struct buffer out = {0};

	request(&body, offered);
	request(&expected, left);
	buffer_append(&out, "front", 5);
	cr_assert(hello_edit_request(buffer_view(&body), true, &out));
	buffer_consume(&out, 5);
	assert_bytes(buffer_view(&out), buffer_view(&expected));
}

#define NAMES(...) ((const char *const[]){__VA_ARGS__, ""})

Test(hello, a_compressor_that_cannot_be_read_is_not_offered)
{
	assert_request(NAMES("lz4"), NAMES(""));
	assert_request(NAMES("lz4", "zstd", "brotli", "snappy"), NAMES("zstd", "snappy"));
	assert_request(NAMES("zlib", "lz4"), NAMES("zlib"));
}

/* With TLS to the server, whoever attempts to sign in by its certificate takes Spillway's. */
Test(hello, an_attempt_by_certificate_does_not_go_on)
{
	static const struct {
		const char *command, *mechanism;
		bool goes_on;
	} attempts[] = {{"authenticate", "MONGODB-X509", false},
			{"authenticate", "", false},
			{"saslStart", "MONGODB-X509", false},
			{"saslStart", "", false},
			{"saslStart", "SCRAM-SHA-256", true}};

	for (size_t i = 0; i < ARRAY_LENGTH(attempts); i++) {
		auto_buffer struct buffer body = {0}, out = {0};
		size_t start = writer_open(&body), inner;

		writer_int32(&body, "hello", 1);
		inner = writer_open_document(&body, "speculativeAuthenticate");
		writer_int32(&body, attempts[i].command, 1);
		if (attempts[i].mechanism[0])
			writer_string(&body, "mechanism", attempts[i].mechanism);
		writer_close(&body, inner);
		writer_close(&body, start);
		cr_assert_not(hello_edit_request(buffer_view(&body), true, &out));
		cr_assert_eq(hello_edit_request(buffer_view(&body), false, &out),
			     !attempts[i].goes_on, "%zu", i);
	}
}

static bool request_goes_on(struct bytes body)
{
	auto_buffer struct buffer out = {0};
	bool edited;

	buffer_append(&out, "front", 5);
	edited = hello_edit_request(body, true, &out);
	if (edited)
		cr_assert(document_length((struct bytes){out.data + 5, out.length - 5}) > 0);
	else
		cr_assert_eq(out.length, 5);
	return !edited;
}

Test(hello, what_needs_no_edit_goes_on_as_it_is)
{
	auto_buffer struct buffer captured = sample("command/hello_request");
	auto_buffer struct buffer all = {0};
	auto_buffer struct buffer none = {0};

	request(&all, NAMES("snappy", "zlib", "zstd", "noop"));
	request(&none, NAMES(""));
	cr_assert(request_goes_on(buffer_view(&captured)));
	cr_assert(request_goes_on(buffer_view(&all)));
	cr_assert(request_goes_on(buffer_view(&none)));
}

Test(hello, a_list_of_another_type_is_left_to_mongod)
{
	auto_buffer struct buffer body = {0};
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&body), list;

	writer_int32(&body, "hello", 1);
	writer_string(&body, "compression", "lz4");
	list = writer_open_array(&body, "other");
	writer_string(&body, "0", "lz4");
	writer_close(&body, list);
	writer_close(&body, start);
	cr_assert_not(hello_edit_request(buffer_view(&body), true, &out));
}

Test(hello, what_is_no_name_stays_in_the_list)
{
	auto_buffer struct buffer body = {0};
	auto_buffer struct buffer expected = {0};
	auto_buffer struct buffer out = {0};

	for (int i = 0; i < 2; i++) {
		struct buffer *buffer = i == 0 ? &body : &expected;
		size_t start = writer_open(buffer);
		size_t list = writer_open_array(buffer, "compression");

		if (i == 0)
			writer_string(buffer, "0", "lz4");
		writer_int32(buffer, i == 0 ? "1" : "0", 5);
		writer_close(buffer, list);
		writer_close(buffer, start);
	}
	cr_assert(hello_edit_request(buffer_view(&body), true, &out));
	assert_bytes(buffer_view(&out), buffer_view(&expected));
}

Test(hello, a_broken_request_goes_on_as_it_is)
{
	auto_buffer struct buffer body = {0};

	request(&body, NAMES("lz4", "zlib"));
	cr_assert_not(request_goes_on(buffer_view(&body)));
	for (size_t length = 0; length < body.length; length++)
		cr_assert(try_exact((struct bytes){body.data, length}, request_goes_on));
	cr_assert_gt(changes_taken(buffer_view(&body), request_goes_on), 0);
}

/* "<port of 127.0.0.1>" is advertised as "<port>.example.net", but for the one that is unknown. */
#define NAME_ROOM 64

struct members {
	const char *unknown;
	char *name; /* NAME_ROOM bytes */
};

static bool find_member(const void *context, struct bytes member, struct bytes *advertised)
{
	const struct members *members = context;
	const char *colon = memchr(member.data, ':', member.length);

	if (!colon || (members->unknown && bytes_are(member, members->unknown)))
		return false;
	snprintf(members->name, NAME_ROOM, "%.*s.example.net",
		 (int)((const char *)member.data + member.length - colon - 1), colon + 1);
	*advertised = bytes_of(members->name);
	return true;
}

static bool find_same(const void *context, struct bytes member, struct bytes *advertised)
{
	(void)context;
	*advertised = member;
	return true;
}

static bool find_none(const void *context, struct bytes member, struct bytes *advertised)
{
	(void)context;
	(void)member;
	(void)advertised;
	return false;
}

static bool is_address(const struct element *element)
{
	static const char *const names[] = {"hosts", "passives", "arbiters", "primary", "me"};

	for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
		if (element_is(element, names[i]))
			return true;
	return false;
}

/* All but the addresses, in their order, byte for byte. */
static void without_addresses(struct bytes body, struct buffer *rest)
{
	struct cursor cursor;
	struct element element;

	cr_assert(cursor_open(&cursor, body));
	while (cursor_next(&cursor, &element) == CURSOR_ELEMENT)
		if (!is_address(&element))
			buffer_append(rest, element_raw(&element).data,
				      element_raw(&element).length);
}

static void assert_text(struct bytes body, const char *name, const char *expected)
{
	struct element element;
	struct bytes text;

	cr_assert(document_find(body, name, &element), "%s", name);
	cr_assert(element_string(&element, &text));
	assert_bytes(text, bytes_of(expected));
}

/* The body of a captured reply, edited; the caller frees `out`. */
static void edit_reply(const char *name, const char *unknown, struct buffer *out)
{
	auto_buffer struct buffer frame = sample(name);
	auto_buffer struct buffer before = {0};
	auto_buffer struct buffer after = {0};
	char room[NAME_ROOM];
	struct members members = {.unknown = unknown, .name = room};
	struct hello_map map = {find_member, &members};

	cr_assert(hello_edit_reply(body_of(&frame), &map, out));
	cr_assert(document_valid(buffer_view(out)));
	without_addresses(body_of(&frame), &before);
	without_addresses(buffer_view(out), &after);
	assert_bytes(buffer_view(&after), buffer_view(&before));
}

/* The replica set's member with the port of the capture. */
static void own_name(const char *sample_name, char *name, size_t size)
{
	auto_buffer struct buffer frame = sample(sample_name);
	struct bytes me;

	cr_assert(hello_own_name(body_of(&frame), &me));
	snprintf(name, size, "%.*s", (int)me.length, me.data);
}

Test(hello, a_primary_is_known_by_the_advertised_names)
{
	auto_buffer struct buffer out = {0};
	struct element list;
	char me[64], advertised[96];

	own_name("frame/hello_primary", me, sizeof(me));
	snprintf(advertised, sizeof(advertised), "%s.example.net", strchr(me, ':') + 1);
	edit_reply("frame/hello_primary", NULL, &out);
	assert_text(buffer_view(&out), "me", advertised);
	assert_text(buffer_view(&out), "primary", advertised);
	cr_assert(document_find(buffer_view(&out), "hosts", &list));
	assert_text(list.value, "0", advertised);
	cr_assert(document_find(buffer_view(&out), "passives", &list));
	assert_text(list.value, "0", "27018.example.net");
	assert_text(list.value, "1", "27019.example.net");
}

Test(hello, a_secondary_is_known_by_the_advertised_names)
{
	auto_buffer struct buffer out = {0};
	struct element list;

	edit_reply("frame/hello_secondary", NULL, &out);
	cr_assert_not(document_find(buffer_view(&out), "primary", &list));
	cr_assert(document_find(buffer_view(&out), "arbiters", &list));
	assert_text(list.value, "0", "27020.example.net");
}

Test(hello, a_member_without_a_listener_is_left_out_and_the_rest_numbered_anew)
{
	auto_buffer struct buffer out = {0};
	struct element list, other;

	edit_reply("frame/hello_primary", "127.0.0.1:27018", &out);
	cr_assert(document_find(buffer_view(&out), "passives", &list));
	assert_text(list.value, "0", "27019.example.net");
	cr_assert_not(document_find(list.value, "1", &other));
}

Test(hello, a_primary_that_nobody_knows_is_not_named)
{
	auto_buffer struct buffer frame = sample("frame/hello_primary");
	auto_buffer struct buffer out = {0};
	struct hello_map map = {find_none, NULL};
	struct element element;

	cr_assert(hello_edit_reply(body_of(&frame), &map, &out));
	cr_assert_not(document_find(buffer_view(&out), "primary", &element));
	cr_assert_not(document_find(buffer_view(&out), "me", &element));
	cr_assert(document_find(buffer_view(&out), "hosts", &element));
	assert_bytes(element.value, LITERAL("\5\0\0\0\0"));
}

Test(hello, a_reply_whose_names_stay_goes_on_as_it_is)
{
	auto_buffer struct buffer frame = sample("frame/hello_primary");
	auto_buffer struct buffer plain = sample("frame/find_reply");
	auto_buffer struct buffer out = {0};
	struct hello_map same = {find_same, NULL}, none = {find_none, NULL};

	cr_assert_not(hello_edit_reply(body_of(&frame), &same, &out));
	cr_assert_not(hello_edit_reply(body_of(&plain), &none, &out), "a standalone has no names");
	cr_assert_eq(out.length, 0);
}

static bool reply_edited(struct bytes body)
{
	auto_buffer struct buffer out = {0};
	char room[NAME_ROOM];
	struct members members = {.name = room};
	struct hello_map map = {find_member, &members};

	if (!hello_edit_reply(body, &map, &out)) {
		cr_assert_eq(out.length, 0);
		return false;
	}
	cr_assert_eq(document_length(buffer_view(&out)), out.length);
	return true;
}

Test(hello, a_broken_reply_is_not_edited)
{
	auto_buffer struct buffer frame = sample("frame/hello_secondary");
	struct bytes body = body_of(&frame);

	cr_assert(reply_edited(body));
	cr_assert_eq(prefixes_taken(body, reply_edited), 0);
	cr_assert_gt(changes_taken(body, reply_edited), 0);
}

Test(hello, a_server_without_a_set_has_no_own_name)
{
	auto_buffer struct buffer frame = sample("frame/find_reply");
	struct bytes name = {0};

	cr_assert_not(hello_own_name(body_of(&frame), &name));
	cr_assert_null(name.data);
}

Test(hello, a_client_has_signed_in_with_the_last_step)
{
	static const struct {
		const char *reply;
		bool signed_in, signs_in;
	} replies[] = {
		{"{'conversationId': 1, 'done': false, 'ok': 1}", false, true},
		{"{'conversationId': 1, 'done': true, 'ok': 1}", true, true},
		{"{'conversationId': 1, 'done': true, 'ok': 0}", false, true},
		{"{'dbname': '$external', 'user': 'CN=x', 'ok': 1}", true, true},
		{"{'ok': 1}", false, false},
		{"{'ok': 0, 'code': 18}", false, false},
		{"{'speculativeAuthenticate': {'done': false}, 'ok': 1}", false, false},
		{"{'speculativeAuthenticate': {'done': true}, 'ok': 1}", true, false},
		{"{'speculativeAuthenticate': {'user': 'CN=x'}, 'ok': 1}", true, false},
	};

	for (size_t i = 0; i < ARRAY_LENGTH(replies); i++) {
		struct bytes body = made_bson(replies[i].reply);

		cr_expect_eq(hello_signed_in(body), replies[i].signed_in, "%zu", i);
		cr_expect_eq(hello_signs_in(body), replies[i].signs_in, "%zu", i);
	}
	made_free();
}
