/*
 * The engine of TLS against OpenSSL itself, in memory: a certificate, and two ends that talk.
 */
#ifndef TESTS_UNIT_SECURED_H
#define TESTS_UNIT_SECURED_H

#include "tests/unit/unit.h"

#include "proxy/tls/tls.h"
#include "proxy/tls/tls_side.h"
#include "rules/rule/text.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NAMES "DNS:db.example.net,DNS:*.wild.example.net,IP:127.0.0.1,IP:::1"
#define LARGEST 100000
#define WHOLE SIZE_MAX /* all that there is, in one go */
#define REASON 512

/* A folder with one self-signed certificate and its key, "both.pem". */
struct world {
	char folder[32];
	char *file;
	char *conf; /* the configuration file's path; there is no such file */
	struct config_tls listener, server;
};

/* The engine on this side, OpenSSL's own on the other. */
struct pair {
	struct tls_side *side;
	struct tls *tls;
	struct buffer out; /* what the engine has for the other end */
	struct buffer got; /* what it has read */
	size_t room;       /* for one tls_read; 0: much */
	enum tls_step step;
	bool shaken;
	SSL *other;
	BIO *to, *from; /* the other end's */
	struct buffer other_got;
};

static const int versions[] __attribute__((unused)) = {TLS1_2_VERSION, TLS1_3_VERSION};

static inline void add_names(X509 *cert)
{
	X509_EXTENSION *names = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, NAMES);

	cr_assert_not_null(names);
	X509_add_ext(cert, names, -1);
	X509_EXTENSION_free(names);
}

static inline void write_certificate(const char *path)
{
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *cert = X509_new();
	FILE *file = fopen(path, "w");

	cr_assert(key && cert && file);
	X509_set_version(cert, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
	X509_gmtime_adj(X509_getm_notBefore(cert), -60);
	X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_ASC,
				   (const unsigned char *)"test", -1, -1, 0);
	X509_set_issuer_name(cert, X509_get_subject_name(cert));
	X509_set_pubkey(cert, key);
	add_names(cert);
	cr_assert_gt(X509_sign(cert, key, EVP_sha256()), 0);
	cr_assert_eq(PEM_write_X509(file, cert), 1);
	cr_assert_eq(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL), 1);
	fclose(file);
	X509_free(cert);
	EVP_PKEY_free(key);
}

static inline char *beside(const struct world *world, const char *name)
{
	struct buffer path = {0};

	text_append(&path, "%s/%s", world->folder, name);
	return text_steal(&path);
}

static inline void open_world(struct world *world)
{
	static char both[] = "both.pem";

	*world = (struct world){.folder = "/tmp/test_tls_XXXXXX"};
	cr_assert_not_null(mkdtemp(world->folder));
	world->file = beside(world, both);
	world->conf = beside(world, "conf");
	write_certificate(world->file);
	world->listener = (struct config_tls){.on = true, .cert = both};
	world->server = (struct config_tls){.on = true, .ca = both};
}

static inline void close_world(struct world *world)
{
	unlink(world->file);
	rmdir(world->folder);
	free(world->file);
	free(world->conf);
}

static inline SSL *other_new(const struct world *world, bool connects, int version,
			     SSL_SESSION *session)
{
	SSL_CTX *context = SSL_CTX_new(connects ? TLS_client_method() : TLS_server_method());
	SSL *other;

	SSL_CTX_set_session_id_context(context, (const unsigned char *)"t", 1);
	cr_assert_eq(SSL_CTX_use_certificate_chain_file(context, world->file), 1);
	cr_assert_eq(SSL_CTX_use_PrivateKey_file(context, world->file, SSL_FILETYPE_PEM), 1);
	SSL_CTX_set_min_proto_version(context, version);
	SSL_CTX_set_max_proto_version(context, version);
	other = SSL_new(context);
	SSL_CTX_free(context);
	cr_assert_not_null(other);
	if (session)
		SSL_set_session(other, session);
	if (connects)
		SSL_set_connect_state(other);
	else
		SSL_set_accept_state(other);
	return other;
}

static inline void open_other(struct pair *pair, SSL *other)
{
	pair->other = other;
	pair->to = BIO_new(BIO_s_mem());
	pair->from = BIO_new(BIO_s_mem());
	SSL_set_bio(other, pair->to, pair->from);
}

/* The engine accepts; the other end connects. */
static inline void open_accepting(struct pair *pair, const struct world *world, int version)
{
	char reason[REASON];

	*pair = (struct pair){0};
	pair->side = tls_side_new_listener(&world->listener, world->conf, reason, sizeof(reason));
	cr_assert_not_null(pair->side, "%s", reason);
	pair->tls = tls_new(tls_side_accept(pair->side));
	open_other(pair, other_new(world, true, version, NULL));
}

static inline void open_connecting(struct pair *pair, const struct world *world, int version,
				   const char *address)
{
	char reason[REASON];

	*pair = (struct pair){0};
	pair->side = tls_side_new_server(&world->server, world->conf, reason, sizeof(reason));
	cr_assert_not_null(pair->side, "%s", reason);
	pair->tls = tls_new(tls_side_connect(pair->side, address));
	open_other(pair, other_new(world, false, version, NULL));
}

static inline void open_pair(struct pair *pair, const struct world *world, bool accepts,
			     int version)
{
	if (accepts)
		open_accepting(pair, world, version);
	else
		open_connecting(pair, world, version, "db.example.net:27017");
}

static inline void close_ends(struct pair *pair)
{
	tls_free(pair->tls);
	SSL_set_shutdown(pair->other, SSL_SENT_SHUTDOWN); /* its session stays resumable */
	SSL_free(pair->other);
	buffer_fini(&pair->out);
	buffer_fini(&pair->got);
	buffer_fini(&pair->other_got);
}

static inline void close_pair(struct pair *pair)
{
	close_ends(pair);
	tls_side_free(pair->side);
}

static inline void read_all(struct pair *pair)
{
	static uint8_t room[65536];

	do {
		size_t length = 0;

		pair->step = tls_read(pair->tls, room, pair->room ? pair->room : sizeof(room),
				      &length, &pair->out);
		cr_assert_eq(length > 0, pair->step == TLS_DONE);
		buffer_append(&pair->got, room, length);
	} while (pair->step == TLS_DONE);
}

/* Each piece is a block of its own, gone afterwards: whoever still looks into it is seen. */
static inline void give(struct pair *pair, const uint8_t *data, size_t length)
{
	uint8_t *block = must_malloc(length);

	memcpy(block, data, length);
	tls_feed(pair->tls, (struct bytes){block, length});
	if (pair->shaken) {
		read_all(pair);
		free(block);
		return;
	}
	pair->step = tls_handshake(pair->tls, &pair->out);
	tls_keep(pair->tls);
	free(block);
	pair->shaken = pair->step == TLS_DONE;
	if (pair->shaken)
		read_all(pair);
}

/* What the other end has to say, in pieces; false: nothing. */
static inline bool give_sent(struct pair *pair, size_t piece)
{
	char *data;
	size_t length = (size_t)BIO_get_mem_data(pair->from, &data);

	for (size_t at = 0; at < length && pair->step != TLS_FAILED;
	     at += least(piece, length - at))
		give(pair, (const uint8_t *)data + at, least(piece, length - at));
	(void)BIO_reset(pair->from);
	return length > 0;
}

static inline void other_go_on(struct pair *pair)
{
	static uint8_t room[65536];
	int length;

	if (!SSL_is_init_finished(pair->other) && SSL_do_handshake(pair->other) != 1)
		return;
	while ((length = SSL_read(pair->other, room, sizeof(room))) > 0)
		buffer_append(&pair->other_got, room, (size_t)length);
}

static inline bool take_sent(struct pair *pair, size_t piece)
{
	size_t length = pair->out.length;

	for (size_t at = 0; at < length; at += least(piece, length - at)) {
		BIO_write(pair->to, pair->out.data + at, (int)least(piece, length - at));
		other_go_on(pair);
	}
	pair->out.length = 0;
	return length > 0;
}

/* Until neither end has anything to say. */
static inline void pump(struct pair *pair, size_t piece)
{
	bool more = true;

	if (!pair->shaken && !SSL_is_server(pair->other))
		other_go_on(pair);
	else if (!pair->shaken)
		pair->step = tls_handshake(pair->tls, &pair->out);
	while (more && pair->step != TLS_FAILED) {
		more = take_sent(pair, piece);
		more = give_sent(pair, piece) || more;
	}
}

static inline void open_shaken(struct pair *pair, const struct world *world, bool accepts,
			       int version)
{
	open_pair(pair, world, accepts, version);
	pump(pair, WHOLE);
	cr_assert(pair->shaken && SSL_is_init_finished(pair->other));
	cr_assert_eq(pair->step, TLS_MORE);
}

static inline uint8_t *numbers(void)
{
	static uint8_t data[LARGEST];

	for (size_t i = 0; i < LARGEST; i++)
		data[i] = (uint8_t)(i * 7 + i / 251);
	return data;
}

static inline void expect_bytes(const struct buffer *got, const void *data, size_t length)
{
	cr_assert_eq(got->length, length);
	cr_assert(length == 0 || memcmp(got->data, data, length) == 0);
}

#endif
