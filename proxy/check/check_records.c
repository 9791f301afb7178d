/* What documents were spilled under before, as serve asks it: rules that are gone, other layouts,
 * overflow that is another's. */
#include "proxy/check/check_inner.h"

#include "proxy/fitness/lost_overflow.h"
#include "proxy/ownership/gone_rules.h"
#include "proxy/ownership/renamed.h"
#include "proxy/ownership/rule_owner.h"
#include "proxy/ownership/rule_record.h"
#include "proxy/pace/pauses.h"

#include <bson/bson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The last part of a reason that has several parts says what to do. */
static void add_reason(struct check *check, enum finding_code code, const char *rule,
		       const char *what, const char *reason)
{
	const char *last = NULL;

	for (const char *part = strstr(reason, "; "); part; part = strstr(part + 1, "; "))
		last = part;
	findings_add(&check->findings, code, rule, "%s%.*s", what,
		     (int)(last ? (size_t)(last - reason) : strlen(reason)), reason);
	if (last)
		findings_remedy(&check->findings, "%s", last + strlen("; "));
}

/* Nothing is said of what nobody could read, and not that all is good. */
static void note_unread(struct check *check, enum link_result result)
{
	if (result == LINK_LOST)
		snprintf(check->unread, sizeof(check->unread), "%s",
			 link_error(check->link)->message);
}

void check_gone_rules(struct check *check)
{
	auto_buffer struct buffer edited = {0}; /* serve removes these */
	char reason[900] = "";
	enum link_result result =
		gone_rules_find(check->link, check->config->rules, &edited, reason, sizeof(reason));

	note_unread(check, result);
	if (result == LINK_DONE && reason[0])
		add_reason(check, FINDING_RULE_GONE, NULL, "", reason);
}

static void note_pause(void *context, struct bytes pause)
{
	struct check *check = context;
	struct bytes name, by = {0};

	if (!document_find_string(pause, "_id.pause", &name))
		return;
	(void)!document_find_string(pause, "by", &by);
	for (size_t i = 0; i < rule_set_count(check->config->rules); i++) {
		const char *rule = rule_set_at(check->config->rules, i)->name;

		if (bytes_are(name, rule))
			findings_add(&check->findings, FINDING_RULE_PAUSED, rule,
				     "it is paused ('spillway pause', run on '%.*s'): nothing is "
				     "moved until 'spillway resume %s'",
				     (int)by.length, by.length > 0 ? (const char *)by.data : "",
				     rule);
	}
}

void check_pauses(struct check *check)
{
	note_unread(check, pauses_each(check->link, note_pause, check));
}

/* The rule's record names an overflow collection that is no more. */
static enum link_result check_loss(struct check *check, const struct check_target *target,
				   struct mover_target *asked)
{
	struct collection_facts facts = {0};
	bool lost = false;
	enum link_result result = facts_read_entry(check->link, target->overflow_database,
						   target->overflow_collection, &facts);

	if (result == LINK_DONE)
		result = lost_overflow_look(check->link, asked, &facts, &lost);
	facts_fini(&facts);
	if (result == LINK_DONE && lost)
		findings_add(&check->findings, FINDING_OVERFLOW_LOST, target->rule->name,
			     "the overflow '%s.%s' was dropped or replaced while documents of "
			     "'%s.%s' are split there: reads of their arrays fail (301)",
			     target->overflow_database, target->overflow_collection,
			     target->namespace->database, target->namespace->collection);
	return result == LINK_REFUSED ? LINK_DONE : result;
}

must_check bool check_record(struct check *check, const struct check_target *target)
{
	struct target_set *targets = target_set_new(check->config->rules);
	struct mover_target *asked =
		target_get(targets, target->rule, bytes_of(target->namespace->database),
			   bytes_of(target->namespace->collection));
	auto_free char *what =
		bson_strdup_printf("it can't hold on '%s.%s': ", target->namespace->database,
				   target->namespace->collection);
	char reason[900] = "", renamed[RENAMED_REASON] = "";
	enum finding_code code = FINDING_OVERFLOW_OF_OTHER;
	enum rule_record compared;
	enum link_result result = LINK_DONE;

	if (asked)
		result = rule_record_compare(check->link, asked, &compared, reason, sizeof(reason));
	if (reason[0])
		code = FINDING_RECORD_DIFFERS;
	else if (result == LINK_DONE && asked && !asked->read_only)
		result = rule_owner_ask(check->link, asked, reason, sizeof(reason));
	if (result == LINK_DONE && asked && !reason[0])
		result = renamed_tell(check->link, asked, false, renamed, sizeof(renamed));
	if (result == LINK_DONE && asked && !reason[0])
		result = check_loss(check, target, asked);
	target_set_free(targets);
	note_unread(check, result);
	if (result == LINK_DONE && renamed[0])
		add_reason(check, FINDING_COLLECTION_RENAMED, target->rule->name, "", renamed);
	if (result == LINK_DONE && reason[0])
		add_reason(check, code, target->rule->name, what, reason);
	return result == LINK_DONE && !reason[0];
}
