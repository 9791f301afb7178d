/* Tests proxy/tls/tls_side.c: host names, versions, certificates, sessions that are resumed. */
#include "tests/unit/secured.h"

struct named {
	const char *address;
	const char *server_name; /* the setting */
	bool right;
	const char *told; /* by SNI */
};

Test(tls_side, a_servers_certificate_must_have_the_hosts_name)
{
	static const struct named table[] = {
		{"db.example.net:27017", NULL, true, "db.example.net"},
		{"DB.Example.NET:27017", NULL, true, "DB.Example.NET"},
		{"x.wild.example.net:1", NULL, true, "x.wild.example.net"},
		{"a.b.wild.example.net:1", NULL, false, "a.b.wild.example.net"},
		{"wild.example.net:1", NULL, false, "wild.example.net"},
		{"other.example.net:1", NULL, false, "other.example.net"},
		{"127.0.0.1:27017", NULL, true, NULL},
		{"127.0.0.2:27017", NULL, false, NULL},
		{"[::1]:27017", NULL, true, NULL},
		{"[::2]:27017", NULL, false, NULL},
		{"10.1.2.3:1", "db.example.net", true, "db.example.net"},
		{"db.example.net:1", "10.1.2.3", false, NULL},
		{"db.example.net:1", "other.example.net", false, "other.example.net"},
		{"10.1.2.3:1", "127.0.0.1", true, NULL},
	};
	struct world world;

	open_world(&world);
	for (size_t i = 0; i < ARRAY_LENGTH(table) * 2; i++) {
		const struct named *each = &table[i / 2];
		auto_free char *name = each->server_name ? strdup(each->server_name) : NULL;
		struct pair pair;
		const char *told;

		world.server.server_name = name;
		open_connecting(&pair, &world, versions[i % 2], each->address);
		pump(&pair, WHOLE);
		cr_assert_eq(pair.shaken, each->right, "%s: %s", each->address,
			     tls_reason(pair.tls));
		cr_assert_eq(pair.step == TLS_FAILED, !each->right);
		cr_assert_eq(strstr(tls_reason(pair.tls), "mismatch") != NULL, !each->right);
		told = SSL_get_servername(pair.other, TLSEXT_NAMETYPE_host_name);
		cr_assert_eq(told != NULL, each->told != NULL, "%s", each->address);
		cr_assert(!told || strcmp(told, each->told) == 0, "%s", told);
		close_pair(&pair);
	}
	close_world(&world);
}

Test(tls_side, a_server_of_another_authority_is_not_believed)
{
	struct world world, stranger;
	struct pair pair;

	open_world(&world);
	open_world(&stranger);
	open_connecting(&pair, &world, TLS1_3_VERSION, "db.example.net:1");
	SSL_free(pair.other);
	open_other(&pair, other_new(&stranger, false, TLS1_3_VERSION, NULL));
	pump(&pair, WHOLE);
	cr_assert_eq(pair.step, TLS_FAILED);
	cr_assert(strstr(tls_reason(pair.tls), "certificate"), "%s", tls_reason(pair.tls));
	cr_assert_gt(pair.out.length, 0, "the other end is told");
	close_pair(&pair);
	close_world(&stranger);
	close_world(&world);
}

Test(tls_side, a_version_below_the_least_is_refused)
{
	struct world world;

	open_world(&world);
	world.listener.min_version = world.server.min_version = CONFIG_TLS_1_3;
	for (size_t i = 0; i < 4; i++) {
		struct pair pair;

		open_pair(&pair, &world, i % 2, versions[i / 2]);
		pump(&pair, WHOLE);
		cr_assert_eq(pair.shaken, versions[i / 2] == TLS1_3_VERSION);
		close_pair(&pair);
	}
	close_world(&world);
}

static void expect_client_cert(struct world *world, enum config_client_cert wanted, bool shows,
			       bool right)
{
	for (size_t i = 0; i < ARRAY_LENGTH(versions); i++) {
		struct pair pair;

		world->listener.client_cert = wanted;
		open_accepting(&pair, world, versions[i]);
		if (!shows)
			SSL_certs_clear(pair.other);
		pump(&pair, WHOLE);
		cr_assert_eq(pair.shaken, right);
		close_pair(&pair);
	}
}

Test(tls_side, a_client_must_show_a_certificate_where_one_is_required)
{
	static char ca[] = "both.pem";
	struct world world;

	open_world(&world);
	world.listener.ca = ca;
	expect_client_cert(&world, CONFIG_CLIENT_CERT_NONE, false, true);
	expect_client_cert(&world, CONFIG_CLIENT_CERT_OPTIONAL, false, true);
	expect_client_cert(&world, CONFIG_CLIENT_CERT_OPTIONAL, true, true);
	expect_client_cert(&world, CONFIG_CLIENT_CERT_REQUIRED, false, false);
	expect_client_cert(&world, CONFIG_CLIENT_CERT_REQUIRED, true, true);
	close_world(&world);
}

/* TLS 1.3 hands its ticket over behind the handshake. */
static SSL_SESSION *session_of(struct pair *pair)
{
	pump(pair, WHOLE);
	return SSL_get1_session(pair->other);
}

static bool is_resumed(struct pair *pair, const struct world *world, int version,
		       SSL_SESSION *session)
{
	struct tls_side *side = pair->side;
	bool resumed;

	close_ends(pair);
	*pair = (struct pair){.side = side, .tls = tls_new(tls_side_accept(side))};
	open_other(pair, other_new(world, true, version, session));
	pump(pair, WHOLE);
	cr_assert(pair->shaken);
	resumed = tls_resumed(pair->tls);
	cr_assert_eq(resumed, SSL_session_reused(pair->other));
	return resumed;
}

static void reload(struct tls_side *side)
{
	char reason[REASON];
	SSL_CTX *context = tls_side_load(side, reason, sizeof(reason));

	cr_assert_not_null(context, "%s", reason);
	tls_side_take(side, context);
}

Test(tls_side, a_clients_session_is_resumed_until_the_files_are_read_again)
{
	struct world world;

	open_world(&world);
	for (size_t i = 0; i < ARRAY_LENGTH(versions); i++) {
		SSL_SESSION *session;
		struct pair pair;

		open_shaken(&pair, &world, true, versions[i]);
		session = session_of(&pair);
		cr_assert_not(is_resumed(&pair, &world, versions[i], NULL));
		cr_assert(is_resumed(&pair, &world, versions[i], session));
		SSL_SESSION_free(session);
		session = session_of(&pair);
		reload(pair.side);
		cr_assert_not(is_resumed(&pair, &world, versions[i], session));
		SSL_SESSION_free(session);
		close_pair(&pair);
	}
	close_world(&world);
}

/* Connects again to one and the same server, by this name. */
static bool server_resumes_as(struct pair *pair, SSL_CTX *server, const char *address)
{
	struct tls_side *side = pair->side;
	SSL *other = SSL_new(server);

	close_ends(pair);
	*pair = (struct pair){.side = side, .tls = tls_new(tls_side_connect(side, address))};
	SSL_set_accept_state(other);
	open_other(pair, other);
	pump(pair, WHOLE);
	cr_assert(pair->shaken, "%s", tls_reason(pair->tls));
	return tls_resumed(pair->tls);
}

static bool server_resumes(struct pair *pair, SSL_CTX *server)
{
	return server_resumes_as(pair, server, "db.example.net:1");
}

/* All members of a replica set share a side. What one was believed for says nothing of another. */
Test(tls_side, a_session_is_resumed_with_its_own_host_only)
{
	static const char *const others[] = {"x.wild.example.net:1", "127.0.0.1:1", "[::1]:1"};
	struct world world;

	open_world(&world);
	for (size_t i = 0; i < ARRAY_LENGTH(versions) * ARRAY_LENGTH(others); i++) {
		const char *other = others[i / 2];
		struct pair pair;
		SSL_CTX *server;

		open_connecting(&pair, &world, versions[i % 2], "db.example.net:1");
		server = SSL_get_SSL_CTX(pair.other);
		SSL_CTX_up_ref(server);
		cr_assert_not(server_resumes(&pair, server));
		cr_assert_not(server_resumes_as(&pair, server, other), "%s", other);
		cr_assert(server_resumes_as(&pair, server, other), "%s", other);
		cr_assert(server_resumes(&pair, server), "%s", other);
		SSL_CTX_free(server);
		close_pair(&pair);
	}
	close_world(&world);
}

Test(tls_side, a_session_to_the_server_is_resumed_until_the_files_are_read_again)
{
	struct world world;

	open_world(&world);
	for (size_t i = 0; i < ARRAY_LENGTH(versions); i++) {
		struct pair pair;
		SSL_CTX *server;

		open_connecting(&pair, &world, versions[i], "db.example.net:1");
		server = SSL_get_SSL_CTX(pair.other);
		SSL_CTX_up_ref(server);
		cr_assert_not(server_resumes(&pair, server));
		for (size_t times = 0; times < 3; times++)
			cr_assert(server_resumes(&pair, server));
		reload(pair.side);
		cr_assert_not(server_resumes(&pair, server));
		cr_assert(server_resumes(&pair, server));
		SSL_CTX_free(server);
		close_pair(&pair);
	}
	close_world(&world);
}

/* A session that came from before the reload is not kept: who was believed then may be no more. */
Test(tls_side, a_ticket_of_before_a_reload_is_not_kept)
{
	struct world world;
	struct pair pair;
	SSL_CTX *server;

	open_world(&world);
	open_connecting(&pair, &world, TLS1_3_VERSION, "db.example.net:1");
	server = SSL_get_SSL_CTX(pair.other);
	SSL_CTX_up_ref(server);
	pump(&pair, WHOLE);
	reload(pair.side);
	cr_assert_eq(SSL_new_session_ticket(pair.other), 1);
	cr_assert_eq(SSL_write(pair.other, "x", 1), 1);
	give_sent(&pair, WHOLE);
	expect_bytes(&pair.got, "x", 1);
	cr_assert_not(server_resumes(&pair, server));
	SSL_CTX_free(server);
	close_pair(&pair);
	close_world(&world);
}

Test(tls_side, files_that_are_wrong_are_named)
{
	static char missing[] = "missing.pem";
	struct world world;
	char reason[REASON];

	open_world(&world);
	world.listener.key = missing;
	cr_assert_null(tls_side_new_listener(&world.listener, world.conf, reason, sizeof(reason)));
	cr_assert(strstr(reason, "the key file") && strstr(reason, missing), "%s", reason);
	world.listener.cert = missing;
	cr_assert_null(tls_side_new_listener(&world.listener, world.conf, reason, sizeof(reason)));
	cr_assert(strstr(reason, "the certificate file"), "%s", reason);
	world.server.ca = missing;
	cr_assert_null(tls_side_new_server(&world.server, world.conf, reason, sizeof(reason)));
	cr_assert(strstr(reason, "the CA file"), "%s", reason);
	close_world(&world);
}
