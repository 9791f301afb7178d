/* Makes OpenSSL's contexts of certificate files, and connections of the contexts. */
#include "proxy/tls/tls_side.h"

#include "proxy/base/config_file.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define HOST_MAX 256

#define SESSIONS_MAX 16

#define CERTIFICATES_MOST 32768 /* bytes; OpenSSL makes room for what a client claims */

/* The latest session with a host, to be resumed there and nowhere else: its certificate was that
 * host's. */
struct side_session {
	char host[HOST_MAX];
	SSL_SESSION *session;
};

struct tls_side {
	const struct config_tls *config;
	const char *path;
	bool servers;
	pthread_mutex_t lock; /* of what follows */
	SSL_CTX *context;
	struct side_session sessions[SESSIONS_MAX]; /* to the servers */
	size_t next;                                /* of them, to be replaced */
};

/* Why OpenSSL failed: what the system said first, such as that a file is missing, else OpenSSL's
 * last words. */
static const char *openssl_reason(void)
{
	unsigned long first = ERR_peek_error(), last = ERR_peek_last_error();
	const char *text = ERR_SYSTEM_ERROR(first) ? strerror(ERR_GET_REASON(first))
						   : ERR_reason_error_string(last);

	ERR_clear_error();
	return text ? text : "no reason is known";
}

static bool fail(const char *what, const char *file, char *reason, size_t size)
{
	snprintf(reason, size, "TLS: %s '%s' cannot be used: %s", what, file, openssl_reason());
	return false;
}

static bool is_there(const char *what, const char *file, char *reason, size_t size)
{
	bool waits = config_file_waits(file);

	if (waits)
		snprintf(reason, size, "TLS: %s '%s' cannot be used: " CONFIG_FILE_WAITS, what,
			 file);
	return !waits;
}

/* A key with a passphrase: nobody is there to be asked for it. */
static int on_passphrase(char *room, int size, int writing, void *context)
{
	(void)room;
	(void)size;
	(void)writing;
	(void)context;
	return -1;
}

static bool use_certificate(SSL_CTX *context, const struct tls_side *side, char *reason,
			    size_t size)
{
	const struct config_tls *config = side->config;
	auto_free char *cert = NULL, *key = NULL;

	if (!config->cert)
		return true;
	cert = config_beside(side->path, config->cert);
	key = config_beside(side->path, config->key ? config->key : config->cert);
	if (!is_there("the certificate file", cert, reason, size) ||
	    !is_there("the key file", key, reason, size))
		return false;
	if (SSL_CTX_use_certificate_chain_file(context, cert) != 1)
		return fail("the certificate file", cert, reason, size);
	if (SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1)
		return fail("the key file", key, reason, size);
	if (SSL_CTX_check_private_key(context) != 1)
		return fail("the certificate does not belong to the key; the key file", key, reason,
			    size);
	return true;
}

static bool use_ca(SSL_CTX *context, const struct tls_side *side, char *reason, size_t size)
{
	auto_free char *ca = NULL;

	if (!side->config->ca) {
		if (side->servers && SSL_CTX_set_default_verify_paths(context) != 1)
			return fail("the certificates of", "the system", reason, size);
		return true;
	}
	ca = config_beside(side->path, side->config->ca);
	if (!is_there("the CA file", ca, reason, size))
		return false;
	if (SSL_CTX_load_verify_file(context, ca) != 1)
		return fail("the CA file", ca, reason, size);
	if (!side->servers)
		SSL_CTX_set_client_CA_list(context, SSL_load_client_CA_file(ca));
	return true;
}

static int verify_mode(const struct tls_side *side)
{
	if (side->servers)
		return SSL_VERIFY_PEER;
	switch (side->config->client_cert) {
	case CONFIG_CLIENT_CERT_NONE:
		return SSL_VERIFY_NONE;
	case CONFIG_CLIENT_CERT_OPTIONAL:
		return SSL_VERIFY_PEER;
	case CONFIG_CLIENT_CERT_REQUIRED:
		return SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
	}
	require(!"unreachable");
}

/* By the lock. NULL: none with this host. */
static struct side_session *find_session(struct tls_side *side, const char *host)
{
	for (size_t i = 0; i < SESSIONS_MAX; i++)
		if (side->sessions[i].session && strcmp(side->sessions[i].host, host) == 0)
			return &side->sessions[i];
	return NULL;
}

/* By the lock. Returns what it takes the place of. */
static SSL_SESSION *keep_session(struct tls_side *side, const char *host, SSL_SESSION *session)
{
	struct side_session *place = find_session(side, host);
	SSL_SESSION *before;

	if (!place) {
		place = &side->sessions[side->next];
		side->next = (side->next + 1) % SESSIONS_MAX;
	}
	before = place->session;
	place->session = session;
	snprintf(place->host, sizeof(place->host), "%s", host);
	return before;
}

/* The host that a connection's certificate must be of. */
static void copy_wanted(SSL *connection, char host[HOST_MAX])
{
	X509_VERIFY_PARAM *wanted = SSL_get0_param(connection);
	const char *name = X509_VERIFY_PARAM_get0_host(wanted, 0);
	char *address = name ? NULL : X509_VERIFY_PARAM_get1_ip_asc(wanted);

	snprintf(host, HOST_MAX, "%s", name ? name : address ? address : "");
	OPENSSL_free(address);
}

/* OpenSSL hands a session over that a later connection may resume; 1: it is kept here. A session of
 * before the last reload is not: what it was verified by may not be believed any more. */
static int on_session(SSL *connection, SSL_SESSION *session)
{
	SSL_CTX *context = SSL_get_SSL_CTX(connection);
	struct tls_side *side = SSL_CTX_get_app_data(context);
	SSL_SESSION *before = NULL;
	char host[HOST_MAX];
	bool kept;

	copy_wanted(connection, host);
	pthread_mutex_lock(&side->lock);
	kept = context == side->context;
	if (kept)
		before = keep_session(side, host, session);
	pthread_mutex_unlock(&side->lock);
	SSL_SESSION_free(before);
	return kept;
}

static void set_resumption(SSL_CTX *context, struct tls_side *side)
{
	static const unsigned char name[] = "spillway";

	if (side->servers) {
		SSL_CTX_set_app_data(context, side);
		SSL_CTX_set_session_cache_mode(context,
					       SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
		SSL_CTX_sess_set_new_cb(context, on_session);
		return;
	}
	/* What signs a client in would stay in OpenSSL's buffer, and in freed memory. */
	SSL_CTX_set_options(context, SSL_OP_CLEANSE_PLAINTEXT);
	/* Tickets carry all that resuming needs: nothing is kept for clients that have gone. */
	SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_num_tickets(context, 1);
	SSL_CTX_set_session_id_context(context, name, sizeof(name) - 1);
}

static SSL_CTX *context_new(struct tls_side *side)
{
	SSL_CTX *context = SSL_CTX_new(side->servers ? TLS_client_method() : TLS_server_method());

	if (!context)
		return NULL;
	SSL_CTX_set_min_proto_version(context, side->config->min_version == CONFIG_TLS_1_3
						       ? TLS1_3_VERSION
						       : TLS1_2_VERSION);
	/* Messages have lengths of their own: an end without TLS's farewell cuts nothing unseen. */
	SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
					     SSL_OP_CIPHER_SERVER_PREFERENCE |
					     SSL_OP_IGNORE_UNEXPECTED_EOF);
	/* An idle connection keeps no buffers. */
	SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
					  SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	SSL_CTX_set_verify(context, verify_mode(side), NULL);
	if (!side->servers)
		SSL_CTX_set_max_cert_list(context, CERTIFICATES_MOST);
	SSL_CTX_set_default_passwd_cb(context, on_passphrase);
	set_resumption(context, side);
	return context;
}

SSL_CTX *tls_side_load(struct tls_side *side, char *reason, size_t size)
{
	SSL_CTX *context;

	ERR_clear_error();
	context = context_new(side);
	if (!context)
		snprintf(reason, size, "TLS: OpenSSL gives no context: %s", openssl_reason());
	else if (use_certificate(context, side, reason, size) &&
		 use_ca(context, side, reason, size))
		return context;
	SSL_CTX_free(context);
	return NULL;
}

static struct tls_side *side_new(const struct config_tls *config, const char *path, bool servers,
				 char *reason, size_t size)
{
	struct tls_side *side = must_calloc(1, sizeof(*side));

	side->config = config;
	side->path = path;
	side->servers = servers;
	require(pthread_mutex_init(&side->lock, NULL) == 0);
	side->context = tls_side_load(side, reason, size);
	if (side->context)
		return side;
	tls_side_free(side);
	return NULL;
}

struct tls_side *tls_side_new_listener(const struct config_tls *config, const char *path,
				       char *reason, size_t size)
{
	return side_new(config, path, false, reason, size);
}

struct tls_side *tls_side_new_server(const struct config_tls *config, const char *path,
				     char *reason, size_t size)
{
	return side_new(config, path, true, reason, size);
}

void tls_side_free(struct tls_side *side)
{
	if (!side)
		return;
	for (size_t i = 0; i < SESSIONS_MAX; i++)
		SSL_SESSION_free(side->sessions[i].session);
	SSL_CTX_free(side->context);
	pthread_mutex_destroy(&side->lock);
	free(side);
}

void tls_side_take(struct tls_side *side, SSL_CTX *context)
{
	SSL_CTX *before;

	pthread_mutex_lock(&side->lock);
	before = side->context;
	side->context = context;
	for (size_t i = 0; i < SESSIONS_MAX; i++) { /* as on_session says */
		SSL_SESSION_free(side->sessions[i].session);
		side->sessions[i].session = NULL;
	}
	pthread_mutex_unlock(&side->lock);
	SSL_CTX_free(before);
}

SSL *tls_side_accept(struct tls_side *side)
{
	SSL *connection;

	pthread_mutex_lock(&side->lock);
	connection = SSL_new(side->context);
	pthread_mutex_unlock(&side->lock);
	if (connection)
		SSL_set_accept_state(connection);
	return connection;
}

/* The host of "host:port" or "[host]:port". */
static void copy_host(const char *address, char host[HOST_MAX])
{
	const char *colon = strrchr(address, ':');
	size_t length = colon ? (size_t)(colon - address) : strlen(address);

	if (length >= 2 && address[0] == '[' && address[length - 1] == ']') {
		address++;
		length -= 2;
	}
	snprintf(host, HOST_MAX, "%.*s", (int)length, address);
}

/* The certificate must be this host's; names, not addresses, are also told to the server. */
static bool set_host(SSL *connection, char *host)
{
	X509_VERIFY_PARAM *wanted = SSL_get0_param(connection);

	if (X509_VERIFY_PARAM_set1_ip_asc(wanted, host) == 1)
		return true;
	X509_VERIFY_PARAM_set_hostflags(wanted, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	return X509_VERIFY_PARAM_set1_host(wanted, host, 0) == 1 &&
	       SSL_set_tlsext_host_name(connection, host) == 1;
}

SSL *tls_side_connect(struct tls_side *side, const char *address)
{
	const struct side_session *known;
	char host[HOST_MAX], wanted[HOST_MAX] = "";
	SSL *connection;

	if (side->config->server_name)
		snprintf(host, sizeof(host), "%s", side->config->server_name);
	else
		copy_host(address, host);
	pthread_mutex_lock(&side->lock);
	connection = SSL_new(side->context);
	pthread_mutex_unlock(&side->lock);
	if (!connection || !set_host(connection, host)) {
		SSL_free(connection);
		return NULL;
	}
	copy_wanted(connection, wanted);
	pthread_mutex_lock(&side->lock);
	known = find_session(side, wanted);
	if (known)
		SSL_set_session(connection, known->session);
	pthread_mutex_unlock(&side->lock);
	SSL_set_connect_state(connection);
	return connection;
}
