/* Whose an overflow is. */
#include "proxy/ownership/rule_owner.h"

#include "proxy/base/log.h"
#include "proxy/upstream/clauses.h"
#include "proxy/ownership/neighbours.h"
#include "proxy/ownership/referrers.h"
#include "proxy/ownership/renamed.h"
#include "proxy/ownership/rule_record.h"

#include <stdio.h>
#include <stdlib.h>

struct owners {
	struct buffer key;         /* {_id}: this target's */
	struct bytes name;         /* the overflow's */
	struct buffer other;       /* a record of another's that names it; empty: none */
	bool own;                  /* this target's record names it */
	bool sampled;              /* by what a sample of documents said, then or now */
	bool unsure;               /* nothing is recorded of it */
	bool readable;             /* the records are */
	enum overflow_owner owner; /* what follows */
};

static void take_owner(void *context, struct bytes record)
{
	struct owners *owners = context;
	struct element id, mine, claimed;
	struct bytes name;

	if (!document_find_string(record, "layout.overflow", &name) ||
	    !bytes_equal(name, owners->name))
		return;
	require(document_find(buffer_view(&owners->key), "_id", &mine));
	if (document_find(record, "_id", &id) && id.type == mine.type &&
	    bytes_equal(id.value, mine.value)) {
		owners->own = true;
		owners->sampled = document_find(record, "claimed", &claimed);
	} else if (owners->other.length == 0) {
		buffer_append(&owners->other, record.data, record.length);
	}
}

/* LINK_REFUSED: the records may not be read. */
static enum link_result find_owners(struct link *link, const struct mover_target *target,
				    struct owners *owners)
{
	auto_free char *name =
		bson_strdup_printf("%s.%s", target->overflow_database, target->overflow_collection);
	size_t start = writer_open(&owners->key);

	recorded_rule_write_key(&owners->key, target);
	writer_close(&owners->key, start);
	owners->name = bytes_of(name);
	return link_lost_or_unauthorized(
		link, command_find(link, RULE_RECORD_DATABASE, take_owner, owners,
				   "{find: '" RULE_RECORD_COLLECTION "', filter: "
				   "{'layout.overflow': @name}, readConcern: @read_concern}",
				   fill("name", name)));
}

static void owners_fini(struct owners *owners)
{
	buffer_fini(&owners->key);
	buffer_fini(&owners->other);
}

static void say_other(const struct mover_target *target, struct bytes record, const char *remedy,
		      char *reason, size_t size)
{
	struct bytes namespace = {0}, array = {0};

	(void)!document_find_string(record, "_id.namespace", &namespace);
	(void)!document_find_string(record, "_id.array", &array);
	snprintf(reason, size,
		 "its overflow '%.40s.%.60s' is recorded as that of the array '%.*s' of '%.*s'%s",
		 target->overflow_database, target->overflow_collection,
		 array.length < 40 ? (int)array.length : 40, (const char *)array.data,
		 namespace.length < 70 ? (int)namespace.length : 70, (const char *)namespace.data,
		 remedy);
}

static enum link_result main_exists(struct link *link, const struct mover_target *target,
				    bool *found)
{
	struct bytes document;
	enum link_result result = command_find_one(
		link, target->database, &document,
		"{listCollections: 1, filter: {name: {$eq: @collection}}, nameOnly: true}",
		fill("collection", target->collection));

	if (result == LINK_DONE)
		*found = document.data;
	return result;
}

/* Nothing is recorded, or may be read: then documents tell, whose states name what lies there. What
 * no document refers to may be anybody's: one that is being restored, too. */
static enum link_result judge_unrecorded(struct link *link, const struct mover_target *target,
					 struct owners *owners, char *reason, size_t size)
{
	enum overflow_owner before = target->owner;
	enum referrers found;
	char other[100];
	enum link_result result;

	owners->owner = OWNER_LIKELY;
	owners->sampled = before != OWNER_THIS;
	if (owner_is_known(before) || (before == OWNER_LIKELY && !owners->readable))
		return LINK_DONE; /* it was known before; somebody took the record away */
	result = referrers_find(link, target, &found, other, sizeof(other));
	if (found == REFERRERS_UNKNOWN && before != OWNER_LIKELY)
		owners->owner = OWNER_OPEN;
	owners->sampled = found != REFERRERS_EMPTY;
	owners->unsure = found == REFERRERS_UNKNOWN || found == REFERRERS_NAMED;
	if (result == LINK_DONE && found == REFERRERS_OTHER)
		snprintf(reason, size,
			 "documents of '%.60s' refer to its overflow '%.40s.%.50s', and no record "
			 "says that this is the rule's: correct the namespace, the array or the "
			 "overflow in the file",
			 other, target->overflow_database, target->overflow_collection);
	return result;
}

/* Of an empty overflow another's record takes nothing away. */
static enum link_result judge_recorded_other(struct link *link, const struct mover_target *target,
					     const struct owners *owners, char *reason, size_t size)
{
	bool overflow = false;
	enum link_result result =
		rule_record_find_overflow(link, buffer_view(&owners->other), &overflow);

	if (result == LINK_DONE && overflow)
		say_other(target, buffer_view(&owners->other),
			  ", whose elements would be taken for garbage: correct the namespace, the "
			  "array or the overflow in the file",
			  reason, size);
	return result;
}

static enum link_result judge_owner(struct link *link, const struct mover_target *target,
				    struct owners *owners, char *reason, size_t size)
{
	enum link_result result = find_owners(link, target, owners);

	reason[0] = '\0';
	owners->readable = result == LINK_DONE;
	owners->owner = OWNER_OPEN;
	if (owners->own)
		owners->owner = owners->sampled ? OWNER_CLAIMED : OWNER_THIS;
	if (result == LINK_REFUSED)
		rule_record_warn_of_rights(link);
	if (result == LINK_LOST)
		return result;
	if (owners->other.length > 0)
		return judge_recorded_other(link, target, owners, reason, size);
	return owners->own ? LINK_DONE : judge_unrecorded(link, target, owners, reason, size);
}

must_check enum link_result rule_owner_ask(struct link *link, struct mover_target *target,
					   char *reason, size_t size)
{
	struct owners owners = {0};
	enum overflow_owner before = target->owner;
	enum link_result result = judge_owner(link, target, &owners, reason, size);

	/* Another thread may have recorded it meanwhile. */
	if (result == LINK_DONE)
		(void)atomic_compare_exchange_strong(&target->owner, &before,
						     reason[0] ? OWNER_OTHER : owners.owner);
	owners_fini(&owners);
	return result;
}

bool rule_owner_is_open(const struct mover_target *target, char *reason, size_t size)
{
	if (target->owner != OWNER_OPEN)
		return false;
	snprintf(reason, size,
		 "no document of '%.64s.%.200s' whose state can be read is seen to refer to what "
		 "the overflow '%.64s.%.200s' holds, and no record says whose it is: nothing is "
		 "moved "
		 "there or removed; correct the file, or mend the damaged documents that 'spillway "
		 "verify --rule %.64s' names, before you remove anything",
		 target->database, target->collection, target->overflow_database,
		 target->overflow_collection, target->rule->name);
	return true;
}

must_check enum link_result rule_owner_renamed(struct link *link, const struct mover_target *target,
					       char *reason, size_t size)
{
	enum referrers found = REFERRERS_EMPTY;
	char other[100];
	bool there = true;
	enum link_result result =
		link_lost_or_unauthorized(link, main_exists(link, target, &there));

	reason[0] = '\0';
	if (result == LINK_REFUSED)
		return LINK_DONE;
	if (result == LINK_DONE)
		result = renamed_tell(link, target, false, reason, size);
	if (result == LINK_DONE && !reason[0] && !there)
		result = referrers_find(link, target, &found, other, sizeof(other));
	if (result == LINK_DONE && found == REFERRERS_OTHER)
		snprintf(reason, size,
			 "the collection is gone, and documents of '%.80s' refer to its overflow: "
			 "give it its name back, or remove the overflow where nobody needs it",
			 other);
	return result;
}

must_check enum link_result rule_owner_collects(struct link *link, struct mover_target *target,
						bool *collects)
{
	char reason[RENAMED_REASON];
	enum link_result result = LINK_DONE;

	*collects = false;
	if (owner_is_known(target->owner))
		result = main_exists(link, target, collects);
	if (result == LINK_DONE && *collects) {
		result = renamed_tell(link, target, true, reason, sizeof(reason));
		*collects = !reason[0];
	}
	return result;
}

/* An empty overflow that another's record names: a rule that was edited before it moved anything,
 * or one that another Spillway is about to fill. */
static enum link_result take_over(struct link *link, const struct mover_target *target,
				  struct owners *owners, char *reason, size_t size)
{
	bool others;
	enum link_result result = neighbours_find(link, &others);

	if (result == LINK_DONE && !others)
		result = rule_record_remove_named(link, buffer_view(&owners->other));
	owners->owner = OWNER_LIKELY;
	if (result == LINK_LOST || (result == LINK_DONE && !others))
		return result;
	say_other(target, buffer_view(&owners->other),
		  others ? "; it is empty, but another Spillway is connected or that can't be "
			   "asked: stop it, or name another overflow"
			 : "; it is empty, but the account may not remove that record",
		  reason, size);
	return LINK_DONE;
}

/* Two that began at the same time both see the other's record: neither holds. */
static enum link_result look_again(struct link *link, const struct mover_target *target,
				   char *reason, size_t size)
{
	struct owners owners = {0};
	enum link_result result = find_owners(link, target, &owners);

	if (result == LINK_DONE && owners.other.length > 0) {
		say_other(target, buffer_view(&owners.other), ", just now", reason, size);
		result = rule_record_remove(link, target);
	}
	owners_fini(&owners);
	return result;
}

#define INDEX(quorum) \
	"{createIndexes: '" RULE_RECORD_COLLECTION "', indexes: [{key: {'layout.overflow': 1}, " \
	"name: 'layout.overflow_1'}]" quorum "}"

/* What finds an overflow's records. Once; on a replica set no secondary that is down is waited for.
 */
static enum link_result make_index(struct link *link)
{
	static atomic_bool made;
	enum link_result result;

	if (atomic_load(&made))
		return LINK_DONE;
	result = command_run(link, RULE_RECORD_DATABASE,
			     link_standalone(link) ? INDEX("") : INDEX(", commitQuorum: 1"));
	atomic_store(&made, result != LINK_LOST);
	return result;
}

/* Notes which collection it is, and warns where it has another name now. */
static enum link_result watch_name(struct link *link, struct mover_target *target)
{
	char other[RENAMED_SIZE];
	enum link_result result = renamed_find(link, target, true, other);

	if (result == LINK_DONE)
		renamed_warn(target, other);
	return result;
}

/* As it is now; what nobody knows to be the rule's is not claimed by a record. */
static enum link_result write_down(struct link *link, struct mover_target *target,
				   enum rule_record compared, struct owners *owners, char *reason,
				   size_t size)
{
	bool known = owner_is_known(owners->owner);
	enum link_result result = LINK_DONE;

	if (!owners->readable || owners->owner == OWNER_OPEN || owners->unsure)
		return LINK_DONE;
	if (!known || compared != RULE_RECORD_SAME)
		result = rule_record_write(link, target, owners->sampled);
	if (result == LINK_REFUSED)
		rule_record_warn_of_rights(link);
	if (result == LINK_DONE)
		owners->owner = owners->sampled ? OWNER_CLAIMED : OWNER_THIS;
	if (result == LINK_DONE && compared == RULE_RECORD_NONE)
		result = look_again(link, target, reason, size);
	if (result == LINK_DONE && !reason[0])
		result = make_index(link);
	return result == LINK_DONE ? watch_name(link, target) : result;
}

static void tell_open(struct mover_target *target)
{
	char reason[TARGET_REASON];

	if (rule_owner_is_open(target, reason, sizeof(reason)) &&
	    !atomic_exchange(&target->told.left, true))
		log_warning("4021 mover: %s", reason);
}

/* Nobody else's documents lie in the overflow, and the record says whose it is. `reason` where they
 * may. */
static enum link_result record(struct link *link, struct mover_target *target,
			       enum rule_record compared, char *reason, size_t size)
{
	struct owners owners = {0};
	enum link_result result = judge_owner(link, target, &owners, reason, size);

	if (result == LINK_DONE && !reason[0] && owners.other.length > 0)
		result = take_over(link, target, &owners, reason, size);
	if (result == LINK_DONE && !reason[0])
		result = write_down(link, target, compared, &owners, reason, size);
	if (result != LINK_LOST)
		atomic_store(&target->owner, reason[0] ? OWNER_OTHER : owners.owner);
	tell_open(target);
	owners_fini(&owners);
	return result == LINK_LOST ? result : LINK_DONE;
}

must_check enum link_result rule_owner_hold(struct link *link, struct mover_target *target,
					    char *reason, size_t size)
{
	enum rule_record compared;
	enum link_result result = rule_record_compare(link, target, &compared, reason, size);

	if (result == LINK_DONE && !reason[0] && !target->read_only)
		result = record(link, target, compared, reason, size);
	return result;
}
