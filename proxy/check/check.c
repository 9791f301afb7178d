/* `spillway check`: the file first, shown with its defaults filled in, then the servers. */
#include "proxy/check/check.h"

#include "proxy/check/check_inner.h"
#include "proxy/base/config_file.h"
#include "proxy/base/json_text.h"
#include "proxy/base/log.h"
#include "proxy/upstream/members.h"
#include "rules/config/rule_document.h"
#include "rules/rule/text.h"

#include <bson/bson.h>
#include <stdio.h>
#include <stdlib.h>

static void look(struct check *check)
{
	check_servers(check);
	check_rights(check);
	check_namespaces(check);
	check_clients(check);
}

/* Each with every default filled in. */
static void write_rules(struct buffer *out, const struct rule_set *rules)
{
	size_t array = writer_open_array(out, "rules"), document;
	char name[12];

	for (size_t i = 0; i < rule_set_count(rules); i++) {
		document = writer_open_document(out, writer_index(name, i));
		rule_write(out, rule_set_at(rules, i));
		writer_close(out, document);
	}
	writer_close(out, array);
}

/* With `replica_set`: which member is reached by which address. */
static void write_members(struct buffer *out, const struct check *check)
{
	const struct config *config = check->config;
	size_t array = writer_open_array(out, "members"), document, index = 0;
	char name[12];

	for (size_t i = 0; i < config->listen_count; i++) {
		const char *server = places_server(check->reach.places, i);

		if (!server)
			continue;
		document = writer_open_document(out, writer_index(name, index++));
		writer_int64(out, "_id", (int64_t)i);
		json_write_text(out, "server", server);
		json_write_text(out, "address", config->listen[i].address);
		json_write_text(out, "advertise", config->listen[i].advertise);
		writer_close(out, document);
	}
	writer_close(out, array);
}

static void print_members(const struct check *check)
{
	const struct config *config = check->config;
	const char *head = "\nmembers:\n";

	for (size_t i = 0; i < config->listen_count; i++) {
		const char *server = places_server(check->reach.places, i);

		if (!server)
			continue;
		printf("%s  _id %zu, '%s': clients reach it by '%s'\n", head, i, server,
		       config->listen[i].advertise);
		head = "";
	}
}

static void print_json(const struct check *check, const char *trouble)
{
	auto_buffer struct buffer out = {0};
	size_t start = writer_open(&out);

	writer_string(&out, "command", "check");
	writer_bool(&out, "connected", !trouble);
	writer_string(&out, "ended", trouble ? "lost" : "done");
	if (trouble)
		json_write_text(&out, "error", trouble);
	if (check->config->replica_set.on)
		write_members(&out, check);
	write_rules(&out, check->config->rules);
	findings_bson(&out, &check->findings);
	writer_close(&out, start);
	json_print(buffer_view(&out));
}

static void print_text(const struct check *check, const char *trouble)
{
	auto_buffer struct buffer out = {0};
	auto_free char *plain = trouble ? text_plain(trouble) : NULL;

	if (check->config->replica_set.on)
		print_members(check);
	if (!trouble || check->findings.count > 0) {
		findings_text(&out, &check->findings);
		printf("\n%.*s", (int)out.length, (const char *)out.data);
	}
	if (trouble)
		fprintf(stderr, "%s: %s\n",
			check->link && check->findings.count > 0 ? "the server was lost meanwhile"
								 : "only the file was checked",
			plain);
}

/* Why there is no server, or none any more. */
static void write_trouble(const struct check *check, const bson_error_t *error, char *trouble,
			  size_t size)
{
	if (check->unread[0])
		snprintf(trouble, size, "%s", check->unread);
	else if (check->link)
		snprintf(trouble, size, "%s", link_error(check->link)->message);
	else if (!link_sign_in_failed(error, trouble, size))
		snprintf(trouble, size, "no server answers: %s", error->message);
}

static void find_members(struct check *check)
{
	char reason[512];

	members_find_once(check->config, check->reach.places, &check->stopping);
	/* That no server answers is told anyway. */
	if (places_look(check->reach.places, reason, sizeof(reason)) == PLACES_WRONG)
		findings_add(&check->findings, FINDING_MEMBERS_UNSERVED, NULL, "%s", reason);
}

static int run(struct check *check, bool json)
{
	bson_error_t error = {0};
	char trouble[1024] = "";
	bool lost;

	check_admin(check);
	find_members(check);
	check->link = link_open(check->config->upstream_uri, &check->stopping, &error);
	if (check->link)
		look(check);
	lost = !check->link || !link_alive(check->link) || check->unread[0];
	if (lost)
		write_trouble(check, &error, trouble, sizeof(trouble));
	(json ? print_json : print_text)(check, lost ? trouble : NULL);
	link_free(check->link);
	if (lost)
		return 3;
	return check->findings.problems > 0 ? 1 : 0;
}

/* A file that the configuration names for TLS is as bad as the configuration itself. */
static int tell_tls(const char *reason, bool json)
{
	if (json)
		json_print_failure("check", "bad file", reason);
	fprintf(stderr, "%s\n", reason);
	return 2;
}

static int check_file(const char *path, bool json)
{
	auto_free char *problems = NULL;
	auto_free char *text = NULL;
	struct config *config = config_load(path, &problems);
	struct check check = {.config = config};
	struct tls_pairs *tls;
	char reason[400];
	int code;

	if (!config) {
		if (json)
			json_print_failure("check", "bad file", problems);
		fputs(problems, stderr);
		return 2;
	}
	log_configure(CONFIG_LOG_ERROR, false);
	text = config_print(config);
	if (!json)
		fputs(text, stdout);
	fflush(stdout);
	tls = tls_pairs_new(config, path, reason, sizeof(reason));
	check.reach = (struct reach){config, tls, places_new(config)};
	code = tls ? run(&check, json) : tell_tls(reason, json);
	tls_pairs_free(tls);
	places_free(check.reach.places);
	findings_fini(&check.findings);
	config_free(config);
	return code;
}

int check_main(const struct command_line *line)
{
	return check_file(line->values[OPTION_CONFIG], line->values[OPTION_JSON]);
}
