/* The rights of the upstream account, and the role that has those that are needed. */
#include "proxy/check_inner.h"

#include "protocol/writer.h"
#include "proxy/check_judge.h"
#include "proxy/json_text.h"
#include "proxy/rule_record.h"
#include "rules/glob.h"
#include "rules/text.h"

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
static const char *const on_operations[] = {"inprog", NULL}; /* which Spillways are connected */

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

static void write_privilege(struct buffer *out, size_t *index, const struct resource *resource,
			    const char *const *actions)
{
	char name[12];
	size_t privilege = writer_open_document(out, writer_index(name, (*index)++)), part;

	part = writer_open_document(out, "resource");
	if (resource) {
		writer_string(out, "db", resource->database);
		writer_string(out, "collection", resource->collection);
	} else {
		writer_bool(out, "cluster", true);
	}
	writer_close(out, part);
	part = writer_open_array(out, "actions");
	for (size_t i = 0; actions[i]; i++)
		writer_string(out, writer_index(name, i), actions[i]);
	writer_close(out, part);
	writer_close(out, privilege);
}

static const char *overflow_database(const struct rule *rule)
{
	return rule->overflow.database ? rule->overflow.database : rule->database;
}

static void write_rule_privileges(struct buffer *out, size_t *index, const struct rule *rule)
{
	struct resource main = resource_of(rule->database, rule->collection);
	struct resource overflow = resource_of(overflow_database(rule), rule->overflow.collection);
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

/* As mongosh takes it. */
static char *role_text(const struct rule_set *rules, const char *user)
{
	auto_buffer struct buffer out = {0}, text = {0};
	size_t start = writer_open(&out), array, index = 0;
	char *json;

	writer_string(&out, "role", "spillway");
	array = writer_open_array(&out, "privileges");
	for (size_t i = 0; i < rule_set_count(rules); i++)
		write_rule_privileges(&out, &index, rule_set_at(rules, i));
	write_privilege(&out, &index, &record, for_record);
	write_privilege(&out, &index, NULL, on_operations);
	writer_close(&out, array);
	array = writer_open_array(&out, "roles");
	writer_close(&out, array);
	writer_close(&out, start);
	json = json_text(buffer_view(&out));
	text_append(&text,
		    "in mongosh, as an administrator: db.getSiblingDB('admin').createRole(%s); "
		    "then give it to %s: db.grantRolesToUser('%s', [{role: 'spillway', db: "
		    "'admin'}])",
		    json, *user ? "the account" : "an account and name that in upstream.uri",
		    *user ? user : "NAME");
	bson_free(json);
	return text_steal(&text);
}

struct rights {
	struct check *check;
	struct bytes privileges;
	char *user;
	struct buffer missing; /* "update on 'shop.sales'; ..." */
};

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
		text_append(&rights->missing, " on database '%s'", *database ? database : "*");
}

static void look_at_rule(struct rights *rights, const struct rule *rule)
{
	struct resource main = resource_of(rule->database, rule->collection);
	struct resource overflow = resource_of(overflow_database(rule), rule->overflow.collection);
	struct resource databases[2] = {main, overflow};

	databases[0].collection[0] = databases[1].collection[0] = '\0';
	if (!*main.database) { /* what it matches is not known: rights on all databases */
		look_for(rights, NULL, on_cluster);
		return;
	}
	look_for(rights, &main, on_main);
	look_for(rights, &overflow, on_overflow);
	look_for(rights, &databases[0], on_database);
	if (strcmp(databases[0].database, databases[1].database) != 0)
		look_for(rights, &databases[1], on_database);
}

static void tell_missing(struct rights *rights)
{
	struct rule_set *rules = rights->check->config->rules;
	char *missing;

	for (size_t i = 0; i < rule_set_count(rules); i++)
		look_at_rule(rights, rule_set_at(rules, i));
	look_for(rights, &record, on_record);
	look_for(rights, NULL, on_operations);
	if (rights->missing.length == 0)
		return;
	missing = text_steal(&rights->missing);
	findings_add(&rights->check->findings, "rights", NULL,
		     bson_strdup_printf("the upstream account '%s' lacks rights: %s", rights->user,
					missing),
		     role_text(rules, rights->user));
	free(missing);
}

/* Nobody is signed in: is that enough? */
static void try_without_account(struct check *check)
{
	bson_t *command = BCON_NEW("listDatabases", BCON_INT32(1), "nameOnly", BCON_BOOL(true),
				   "authorizedDatabases", BCON_BOOL(false));
	enum link_result result = link_run(check->link, "admin",
					   (struct bytes){bson_get_data(command), command->len});

	bson_destroy(command);
	if (result == LINK_DONE)
		findings_note(&check->findings, "rights", NULL,
			      bson_strdup("the servers ask for no account: everybody who reaches "
					  "them may do everything"));
	else if (result == LINK_REFUSED)
		findings_add(&check->findings, "rights", NULL,
			     bson_strdup("the servers ask for an account, but upstream.uri names "
					 "none"),
			     role_text(check->config->rules, ""));
}

void check_rights(struct check *check)
{
	struct rights rights = {.check = check};
	struct element element, user;
	struct bytes users, first, name;
	struct cursor cursor;
	bson_t *command =
		BCON_NEW("connectionStatus", BCON_INT32(1), "showPrivileges", BCON_BOOL(true));
	enum link_result result = link_run(check->link, "admin",
					   (struct bytes){bson_get_data(command), command->len});

	bson_destroy(command);
	if (result != LINK_DONE ||
	    !document_find_path(link_body(check->link), "authInfo.authenticatedUsers", &element) ||
	    !element_document(&element, &users) || !cursor_open(&cursor, users))
		return;
	if (cursor_next(&cursor, &user) != CURSOR_ELEMENT) {
		try_without_account(check);
		return;
	}
	if (!element_document(&user, &first) || !document_find(first, "user", &user) ||
	    !element_string(&user, &name) ||
	    !document_find_path(link_body(check->link), "authInfo.authenticatedUserPrivileges",
				&element) ||
	    !element_document(&element, &rights.privileges))
		return;
	rights.user = must_strndup((const char *)name.data, name.length);
	tell_missing(&rights);
	free(rights.user);
	buffer_fini(&rights.missing);
}
