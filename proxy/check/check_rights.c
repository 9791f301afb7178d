/* The rights of the upstream account, and the role that has those that are needed. */
#include "proxy/check/check_inner.h"

#include "proxy/upstream/clauses.h"
#include "proxy/fitness/index_judge.h"
#include "proxy/base/json_text.h"
#include "proxy/ownership/rule_record.h"
#include "rules/rule/glob.h"
#include "rules/rule/text.h"

#include <bson/bson.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const on_main[] = {"find", "update", "listIndexes", NULL};
static const char *const on_overflow[] = {"find",      "insert",         "update",
					  "remove",    "listIndexes",    "createIndex",
					  "dropIndex", "dropCollection", NULL};
static const char *const on_record[] = {"find", "insert", "update", "remove", NULL};
/* The role gives more than is missed: without the index many records take longer. */
static const char *const for_record[] = {"find", "insert", "update", "remove", "createIndex", NULL};
static const char *const on_database[] = {"listCollections", NULL};
static const char *const on_cluster[] = {"listDatabases", NULL};
/* Which Spillways are connected, and how far secondaries are behind. */
static const char *const on_operations[] = {"inprog", "replSetGetStatus", NULL};

/* No database is called so: only a right on all takes it in. */
#define ANY_DATABASE "*"

#define ROLE "spillway"
#define GRANT "[{role: '" ROLE "', db: 'admin'}]"

/* What a resource of the role is called: patterns can't be, so it takes in all that they may match.
 */
struct resource {
	char database[130];
	char collection[260];
};

static const struct resource record = {RULE_RECORD_DATABASE, RULE_RECORD_COLLECTION};

static struct resource resource_of(const char *database, const char *collection)
{
	struct resource resource = {"", ""};

	if (!glob_is(bytes_of(database)))
		snprintf(resource.database, sizeof(resource.database), "%s", database);
	if (!glob_is(bytes_of(collection)) && !strstr(collection, RULE_COLLECTION_MARK))
		snprintf(resource.collection, sizeof(resource.collection), "%s", collection);
	return resource;
}

static void splice_actions(struct buffer *out, size_t *place, const void *context)
{
	const char *const *actions = context;
	char name[12];

	for (; *actions; actions++)
		writer_string(out, writer_index(name, (*place)++), *actions);
}

static void write_privilege(struct buffer *out, size_t *index, const struct resource *resource,
			    const char *const *actions)
{
	template_append(
		out, index, "{resource: @resource, actions: [..@actions]}",
		fill_template("resource", resource ? "{db: @database, collection: @collection}"
						   : "{cluster: true}"),
		fill_text("database", resource ? resource->database : ""),
		fill_text("collection", resource ? resource->collection : ""),
		fill_spliced("actions", splice_actions, actions));
}

static void write_rule_privileges(struct buffer *out, size_t *index, const struct rule *rule)
{
	struct resource main = resource_of(rule->database, rule->collection);
	struct resource overflow =
		resource_of(rule_overflow_database(rule), rule->overflow.collection);
	struct resource databases[2] = {main, overflow};

	databases[0].collection[0] = databases[1].collection[0] = '\0';
	write_privilege(out, index, &main, on_main);
	write_privilege(out, index, &overflow, on_overflow);
	write_privilege(out, index, &databases[0], on_database);
	if (strcmp(databases[0].database, databases[1].database) != 0)
		write_privilege(out, index, &databases[1], on_database);
	if (!*main.database)
		write_privilege(out, index, NULL, on_cluster);
}

struct rights {
	struct check *check;
	struct bytes privileges;
	char *user;
	char *database;        /* the user's */
	bool has_role;         /* ours */
	struct buffer missing; /* "update on 'shop.sales'; ..." */
};

/* {role, privileges, roles}, or {privileges, roles} of one that is there. */
static char *write_role(const struct rule_set *rules, bool there)
{
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out), array, index = 0;

	if (!there)
		writer_string(&out, "role", ROLE);
	array = writer_open_array(&out, "privileges");
	for (size_t i = 0; i < rule_set_count(rules); i++)
		write_rule_privileges(&out, &index, rule_set_at(rules, i));
	write_privilege(&out, &index, &record, for_record);
	write_privilege(&out, &index, NULL, on_operations);
	writer_close(&out, array);
	array = writer_open_array(&out, "roles");
	writer_close(&out, array);
	writer_close(&out, start);
	return json_text(buffer_view(&out));
}

/* Who may not see roles is told to make one. */
static bool role_exists(struct link *link)
{
	enum link_result result = command_run(
		link, "admin", "{rolesInfo: {role: @role, db: 'admin'}}", fill_text("role", ROLE));
	struct element roles, first;
	struct bytes list;
	struct cursor cursor;

	return result == LINK_DONE && document_find(link_body(link), "roles", &roles) &&
	       element_document(&roles, &list) && cursor_open(&cursor, list) &&
	       cursor_next(&cursor, &first) == CURSOR_ELEMENT;
}

/* As mongosh takes it. `rights`: of the account, if there is one. */
static char *role_text(const struct check *check, const struct rights *rights)
{
	bool there = role_exists(check->link) || (rights && rights->has_role);
	auto_buffer struct buffer text = {0};
	char *json = write_role(check->config->rules, there);

	text_append(&text, "in mongosh, as an administrator: db.getSiblingDB('admin').%s%s);",
		    there ? "updateRole('" ROLE "', " : "createRole(", json);
	if (!rights)
		text_append(&text,
			    " then give it to an account and name that in upstream.uri: "
			    "db.getSiblingDB('DATABASE').grantRolesToUser('NAME', " GRANT ")");
	else if (!rights->has_role)
		text_append(&text,
			    " then give it to the account: "
			    "db.getSiblingDB('%s').grantRolesToUser('%s', " GRANT ")",
			    rights->database, rights->user);
	bson_free(json);
	return text_steal(&text);
}

static void look_for(struct rights *rights, const struct resource *resource,
		     const char *const *actions)
{
	const char *database = resource ? resource->database : "";
	const char *collection = resource ? resource->collection : "";
	bool any = false;

	for (size_t i = 0; actions[i]; i++) {
		if (judge_may(rights->privileges, database, collection, actions[i]))
			continue;
		if (any)
			text_append(&rights->missing, ", ");
		else if (rights->missing.length > 0)
			text_append(&rights->missing, "; ");
		text_append(&rights->missing, "%s", actions[i]);
		any = true;
	}
	if (any && !resource)
		text_append(&rights->missing, " on the cluster");
	else if (any && *collection)
		text_append(&rights->missing, " on '%s.%s'", database, collection);
	else if (any)
		text_append(&rights->missing, " on database '%s'", database);
}

/* The rule on this one database, or on any. */
static void look_at_database(struct rights *rights, const struct rule *rule, const char *database)
{
	struct resource main = resource_of("", rule->collection);
	struct resource overflow = resource_of("", rule->overflow.collection);
	struct resource databases[2];
	const char *there = rule->overflow.database ? rule->overflow.database : database;

	snprintf(main.database, sizeof(main.database), "%s", database);
	snprintf(overflow.database, sizeof(overflow.database), "%s", there);
	databases[0] = main;
	databases[1] = overflow;
	databases[0].collection[0] = databases[1].collection[0] = '\0';
	look_for(rights, &main, on_main);
	look_for(rights, &overflow, on_overflow);
	look_for(rights, &databases[0], on_database);
	if (strcmp(databases[0].database, databases[1].database) != 0)
		look_for(rights, &databases[1], on_database);
}

/* Who has no rights on any database may have them on those that are there. */
static void look_at_pattern(struct rights *rights, const struct rule *rule)
{
	struct databases databases = {0};
	size_t before;

	look_for(rights, NULL, on_cluster);
	before = rights->missing.length;
	look_at_database(rights, rule, ANY_DATABASE);
	if (rights->missing.length == before)
		return;
	if (databases_match(rights->check->link, &databases, rule->database) == LINK_DONE &&
	    databases.count > 0)
		rights->missing.length = before;
	for (size_t i = 0; i < databases.count; i++)
		look_at_database(rights, rule, databases.names[i]);
	databases_fini(&databases);
}

static void look_at_rule(struct rights *rights, const struct rule *rule)
{
	if (glob_is(bytes_of(rule->database)))
		look_at_pattern(rights, rule);
	else
		look_at_database(rights, rule, rule->database);
}

static void tell_missing(struct rights *rights)
{
	struct rule_set *rules = rights->check->config->rules;
	auto_free char *missing = NULL;
	auto_free char *remedy = NULL;

	for (size_t i = 0; i < rule_set_count(rules); i++)
		look_at_rule(rights, rule_set_at(rules, i));
	look_for(rights, &record, on_record);
	look_for(rights, NULL, on_operations);
	if (rights->missing.length == 0)
		return;
	missing = text_steal(&rights->missing);
	findings_add(&rights->check->findings, FINDING_ACCOUNT_RIGHTS, NULL,
		     "the upstream account '%s' lacks rights: %s", rights->user, missing);
	remedy = role_text(rights->check, rights);
	findings_remedy(&rights->check->findings, "%s", remedy);
}

static void add_missing_account(struct check *check)
{
	auto_free char *remedy = role_text(check, NULL);

	findings_add(&check->findings, FINDING_ACCOUNT_MISSING, NULL,
		     "the servers ask for an account, but upstream.uri names none");
	findings_remedy(&check->findings, "%s", remedy);
}

/* Nobody is signed in: is that enough? */
static void try_without_account(struct check *check)
{
	enum link_result result =
		command_run(check->link, "admin",
			    "{listDatabases: 1, nameOnly: true, authorizedDatabases: false}");

	if (result == LINK_DONE)
		findings_add(&check->findings, FINDING_NO_ACCESS_CONTROL, NULL,
			     "the servers ask for no account: everybody who reaches "
			     "them may do everything");
	else if (result == LINK_REFUSED)
		add_missing_account(check);
}

static char *copy_text(struct bytes document, const char *name)
{
	struct element element;
	struct bytes text = {0};

	if (document_find(document, name, &element))
		(void)!element_string(&element, &text);
	return must_strndup((const char *)text.data, text.length);
}

static bool has_role(struct bytes status)
{
	struct element element;
	struct bytes roles, role, text;
	struct cursor cursor;

	if (!document_find_path(status, "authInfo.authenticatedUserRoles", &element) ||
	    !element_document(&element, &roles) || !cursor_open(&cursor, roles))
		return false;
	while (cursor_next(&cursor, &element) == CURSOR_ELEMENT)
		if (element_document(&element, &role) && document_find(role, "role", &element) &&
		    element_string(&element, &text) && bytes_are(text, ROLE) &&
		    document_find(role, "db", &element) && element_string(&element, &text) &&
		    bytes_are(text, "admin"))
			return true;
	return false;
}

/* By what connectionStatus says. */
static void look_at_account(struct check *check, struct bytes status)
{
	struct rights rights = {.check = check};
	struct element element, user;
	struct bytes users, first;
	struct cursor cursor;

	if (!document_find_path(status, "authInfo.authenticatedUsers", &element) ||
	    !element_document(&element, &users) || !cursor_open(&cursor, users))
		return;
	if (cursor_next(&cursor, &user) != CURSOR_ELEMENT) {
		try_without_account(check);
		return;
	}
	if (!element_document(&user, &first) ||
	    !document_find_path(status, "authInfo.authenticatedUserPrivileges", &element) ||
	    !element_document(&element, &rights.privileges))
		return;
	rights.user = copy_text(first, "user");
	rights.database = copy_text(first, "db");
	rights.has_role = has_role(status);
	tell_missing(&rights);
	free(rights.user);
	free(rights.database);
	buffer_fini(&rights.missing);
}

void check_rights(struct check *check)
{
	enum link_result result =
		command_run(check->link, "admin", "{connectionStatus: 1, showPrivileges: true}");
	uint8_t *status;

	if (result != LINK_DONE)
		return;
	status = link_steal_body(check->link); /* other commands follow */
	look_at_account(check, (struct bytes){status, (size_t)load_int32(status)});
	bson_free(status);
}
