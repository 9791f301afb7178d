/* The quick test on a request's first bytes: can a rule concern it at all? */
#include "rules/match/match_inner.h"
#include "rules/rule/names.h"

#define BODY_OFFSET (FRAME_HEADER_LENGTH + 5)

/* The collection of a getMore stands behind the cursor's id. */
static bool get_more_may_concern(const struct rule_set *rules, struct bytes bytes)
{
	struct cursor cursor;
	struct element element;
	struct bytes collection;

	if (!cursor_open_prefix(
		    &cursor, (struct bytes){bytes.data + BODY_OFFSET, bytes.length - BODY_OFFSET},
		    FRAME_MAX_LENGTH))
		return true;
	if (!cursor_find(&cursor, bytes_of("collection"), &element) ||
	    !element_string(&element, &collection))
		return true;
	return rule_set_may_concern(rules, collection) || match_is_wide_stream(rules, collection);
}

static bool may_concern(const struct rule_set *rules, struct bytes bytes,
			const struct message_prefix *prefix, const struct command_name *command)
{
	if (rule_set_count(rules) == 0)
		return false;
	if (prefix->name.length == 0 || prefix->type == BSON_BYTE_BINARY ||
	    prefix->type == BSON_BYTE_SYMBOL)
		return true;
	if (prefix->collection.length > 0 && (rule_set_may_concern(rules, prefix->collection) ||
					      bytes_begin_with(prefix->collection, NAME_BUCKETS)))
		return true;
	if (command->kind == COMMAND_GET_MORE)
		return get_more_may_concern(rules, bytes);
	return command->traits & COMMAND_REACHES_FURTHER;
}

/* Where the field txnNumber stands, without which no statement is in a transaction; NULL where it
 * stands nowhere. Few messages have an x at all: that is quicker to see than to walk through the
 * fields. */
static const uint8_t *transaction_number(struct bytes body)
{
	static const uint8_t field[] = "\x12txnNumber";
	const uint8_t *at = body.data, *end = body.data + body.length;

	for (int tries = 0; tries < 16; tries++) {
		at = memchr(at, 'x', (size_t)(end - at));
		if (!at)
			return NULL;
		if (end - at >= 9 && at - body.data >= 6 &&
		    memcmp(at - 2, field, sizeof(field)) == 0)
			return at - 2;
		at++;
	}
	return NULL;
}

/* Looks for the field autocommit in what is there of the frame: it comes behind txnNumber in all
 * drivers. */
static enum match_transaction transaction_of(struct bytes bytes, enum command_kind kind)
{
	size_t length = (size_t)load_int32(bytes.data);
	struct bytes body = {bytes.data + BODY_OFFSET,
			     (length < bytes.length ? length : bytes.length) - BODY_OFFSET};
	const uint8_t *number = transaction_number(body);
	struct cursor cursor;
	struct element element;

	if (!number || !cursor_open_prefix(&cursor, body, FRAME_MAX_LENGTH) || number >= cursor.end)
		return MATCH_NO_TRANSACTION;
	if (kind == COMMAND_END_TRANSACTION)
		return MATCH_ENDS_TRANSACTION;
	cursor.at = number;
	return cursor_find(&cursor, bytes_of("autocommit"), &element) &&
			       !element_is_nothing(&element)
		       ? MATCH_IN_TRANSACTION
		       : MATCH_NO_TRANSACTION;
}

static enum match_step match_message_prefix(const struct rule_set *rules, struct bytes bytes,
					    struct match_facts *facts)
{
	struct message_prefix prefix = {0};
	enum prefix_state state = message_prefix(bytes, &prefix);
	const struct command_name *command;

	if (state == PREFIX_PARTIAL)
		return MATCH_MORE;
	if (state == PREFIX_LATE)
		return MATCH_WHOLE;
	*facts = (struct match_facts){.answered = true};
	if (state != PREFIX_KNOWN) /* mongod says what is wrong with it */
		return MATCH_FORWARD;
	command = command_named(prefix.name);
	if (command->kind == COMMAND_HELLO || command->kind == COMMAND_SIGN_IN ||
	    may_concern(rules, bytes, &prefix, command))
		return MATCH_WHOLE;
	facts->answered = !(prefix.flags & MESSAGE_MORE_TO_COME);
	facts->exhaust = prefix.flags & MESSAGE_EXHAUST_ALLOWED;
	facts->reads_on = command->kind == COMMAND_GET_MORE && rule_set_count(rules) > 0;
	facts->transaction = transaction_of(bytes, command->kind);
	return MATCH_FORWARD;
}

must_check enum match_step match_prefix(const struct rule_set *rules, struct bytes bytes,
					struct match_facts *facts)
{
	switch (load_int32(bytes.data + 12)) {
	case OPCODE_MESSAGE:
		return match_message_prefix(rules, bytes, facts);
	case OPCODE_COMPRESSED:
	case OPCODE_QUERY:
		return MATCH_WHOLE;
	case OPCODE_GET_MORE:
	case OPCODE_INSERT:
	case OPCODE_UPDATE:
	case OPCODE_DELETE:
		if (rule_set_count(rules) > 0)
			return MATCH_WHOLE;
		break;
	default:
		break;
	}
	*facts = (struct match_facts){.answered = load_int32(bytes.data + 12) == OPCODE_GET_MORE};
	return MATCH_FORWARD;
}
