/* Tests rules/config/replica_set.c: a range of ports becomes entries, and the seed an account. */
#include "tests/unit/configs.h"

#include <stdlib.h>

#define RULES "rules: []\n"
#define SET "replica_set: { seed: 'mongodb://db1:1', "

Test(replica_set, each_port_of_the_range_is_an_entry)
{
	struct config *config = good(SET "listen: 0.0.0.0:27117-27119, advertise: proxy, tls: { "
					 "cert: c } }\n" RULES,
				     &nothing);

	cr_assert_eq(config->listen_count, 3);
	cr_assert_str_eq(config->listen[0].address, "0.0.0.0:27117");
	cr_assert_str_eq(config->listen[2].address, "0.0.0.0:27119");
	cr_assert_str_eq(config->listen[2].advertise, "proxy:27119");
	cr_assert_str_eq(config->listen[2].tls.cert, "c");
	cr_assert_null(config->listen[2].server);
	cr_assert_str_eq(config->upstream_uri, "mongodb://db1:1");
	config_free(config);
}

Test(replica_set, clients_are_told_the_host_that_spillway_listens_on)
{
	struct config *config = good(SET "listen: '[::1]:27117-27117' }\n" RULES, &nothing);

	cr_assert_eq(config->listen_count, 1);
	cr_assert_str_eq(config->listen[0].advertise, "[::1]:27117");
	config_free(config);
}

Test(replica_set, ranges_that_are_none)
{
	static const char *const wrong[] = {
		"h",      "h:1",   "h:1-", "h:-1",  "h:2-1",   "h:0-1",  ":1-2",    "h:1-65536",
		"h:1-2x", "h:a-2", "1-2",  "h:1--", "h/x:1-2", "h:1-2-", "::1:1-2", "h: 1-2"};

	for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++) {
		auto_buffer struct buffer text = {0}, message = {0};

		text_append(&text, SET "listen: '%s' }\n" RULES, wrong[i]);
		buffer_append(&text, "", 1);
		text_append(&message,
			    "f:1:49: 'listen' must be host:first-last, as in "
			    "0.0.0.0:27117-27126, not '%s'\n",
			    wrong[i]);
		buffer_append(&message, "", 1);
		bad((const char *)text.data, &nothing, (const char *)message.data);
	}
	bad(SET "listen: 'h:1-257' }\n" RULES, &nothing,
	    "f:1:49: 'listen' has 257 ports; it may have 256\n");
	config_free(good(SET "listen: 'h:1-256' }\n" RULES, &nothing));
}

Test(replica_set, what_clients_are_told)
{
	bad(SET "listen: '0.0.0.0:1-2' }\n" RULES, &nothing,
	    "f:1:14: 'advertise' is needed: clients cannot connect to '0.0.0.0'\n");
	bad(SET "listen: 'h:1-2', advertise: 'h:1' }\n" RULES, &nothing,
	    "f:1:69: 'advertise' must be a name or an address without a port, to which clients "
	    "can connect, not 'h:1'\n");
	bad(SET "listen: 'h:1-2', advertise: 0.0.0.0 }\n" RULES, &nothing,
	    "f:1:69: 'advertise' must be a name or an address without a port, to which clients "
	    "can connect, not '0.0.0.0'\n");
}

Test(replica_set, it_stands_in_place_of_listen)
{
	bad("listen: [ { address: 'h:1', server: 'h:2' } ]\n" SET "listen: 'h:3-4' }\n" RULES,
	    &nothing, "f:2:14: 'listen' and 'replica_set' are given; only one can hold\n");
	bad("replica_set: { seed: 'mongodb://db1:1' }\n" RULES, &nothing,
	    "f:1:14: 'listen' is missing here\n");
}

Test(replica_set, addresses_that_are_taken)
{
	bad(SET "listen: 'h:3-4' }\nadmin: h:4\n" RULES, &nothing,
	    "f:2:8: 'admin' 'h:4' is an address that clients connect to\n");
	bad("replica_set: { seed: 'mongodb://h:4', listen: 'h:3-4' }\n" RULES, &nothing,
	    "f:1:22: 'seed' names 'h:4', an address that Spillway listens on: it has to name the "
	    "servers behind it\n");
}

Test(replica_set, the_seed_and_the_account_name_the_same_servers)
{
	struct config *config =
		good("replica_set: { seed: 'mongodb://db2,db1', listen: 'h:3-4' }\n"
		     "upstream: { uri: 'mongodb://a@db1,DB2/?replicaSet=x' }\n" RULES,
		     &nothing);

	cr_assert_str_eq(config->upstream_uri, "mongodb://a@db1,DB2/?replicaSet=x");
	config_free(config);
	config = good("replica_set: { listen: 'h:3-4' }\n"
		      "upstream: { uri: 'mongodb+srv://a@db.example.net/' }\n" RULES,
		      &nothing);
	cr_assert_str_eq(config->upstream_uri, "mongodb+srv://a@db.example.net/");
	config_free(config);
	bad(SET "listen: 'h:3-4' }\nupstream: { uri: 'mongodb://a@db1:1,db2' }\n" RULES, &nothing,
	    "f:1:22: 'seed' names other servers than 'upstream': name the same ones, or leave "
	    "'seed' out\n");
	bad("replica_set: { seed: 'mongodb://a:b@db1:1', listen: 'h:3-4' }\n"
	    "upstream: { uri: 'mongodb://a@db1:1' }\n" RULES,
	    &nothing,
	    "f:1:22: 'seed' names an account and so does 'upstream'; only one can hold\n");
	bad("replica_set: { listen: 'h:3-4' }\n" RULES, &nothing,
	    "f:1:14: 'seed' is missing here: a URI of the replica set, as in "
	    "mongodb://HOST:PORT,HOST:PORT/\n");
}

Test(replica_set, a_seed_goes_the_way_of_clients)
{
	struct config *config = good(SET "listen: 'h:3-4' }\n"
					 "servers: { tls: { ca: c } }\n" RULES,
				     &nothing);

	cr_assert_str_eq(config->upstream_uri, "mongodb://db1:1/?tls=true&tlsCAFile=c");
	config_free(config);
	config = good("replica_set: { seed: 'mongodb://db1:1/?tls=false', listen: 'h:3-4' }\n"
		      "servers: { tls: { ca: c } }\n" RULES,
		      &nothing);
	cr_assert_str_eq(config->upstream_uri, "mongodb://db1:1/?tls=false");
	config_free(config);
}

Test(replica_set, what_is_printed_reads_back_and_has_no_password)
{
	struct config *config = good("replica_set: { seed: 'mongodb://ann:secret@db1:1', listen: "
				     "'h:3-4', proxy_protocol_from: [10.0.0.1] }\n" RULES,
				     &nothing);
	auto_free char *text = config_print(config), *again = NULL;

	cr_assert_null(strstr(text, "secret"), "%s", text);
	cr_assert(strncmp(text, "replica_set:", 12) == 0, "%s", text);
	cr_assert_str_eq(config->upstream_uri, "mongodb://ann:secret@db1:1");
	config_free(config);
	config = good(text, &nothing);
	again = config_print(config);
	cr_assert_str_eq(again, text);
	config_free(config);
}

Test(replica_set, a_password_is_for_the_owners_eyes)
{
	const struct config_world open = {.others_may_read = true};

	bad("replica_set: { seed: 'mongodb://ann:secret@db1:1', listen: 'h:3-4' }\n" RULES, &open,
	    "f:1:22: 'seed' holds a password and others may read this file: chmod 600 it, or use "
	    "'upstream.uri_file'\n");
}
