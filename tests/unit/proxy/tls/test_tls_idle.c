/* TLS over memory: a client and a server, and what each holds. */
#include "proxy/tls/tls.h"

#include "tests/unit/unit.h"

#include <malloc.h>
#include <openssl/ssl.h>

#define RECORD 16384 /* less than a buffer for one takes */

#ifdef __SANITIZE_ADDRESS__
size_t __sanitizer_get_current_allocated_bytes(void); /* GCC has no header for it */

static size_t held(void)
{
	return __sanitizer_get_current_allocated_bytes();
}
#else
static size_t held(void)
{
	return mallinfo2().uordblks;
}
#endif

static SSL_CTX *context_new(const SSL_METHOD *method)
{
	SSL_CTX *context = SSL_CTX_new(method);

	cr_assert(context);
	SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
	return context;
}

/* With a certificate that it has signed itself. */
static SSL_CTX *server_context(void)
{
	SSL_CTX *context = context_new(TLS_server_method());
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *certificate = X509_new();

	cr_assert(key && certificate);
	X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
	X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
	X509_set_pubkey(certificate, key);
	cr_assert(X509_sign(certificate, key, EVP_sha256()) > 0);
	cr_assert_eq(SSL_CTX_use_certificate(context, certificate), 1);
	cr_assert_eq(SSL_CTX_use_PrivateKey(context, key), 1);
	X509_free(certificate);
	EVP_PKEY_free(key);
	return context;
}

static struct tls *side_new(SSL_CTX *context, bool server)
{
	SSL *connection = SSL_new(context);

	if (server)
		SSL_set_accept_state(connection);
	else
		SSL_set_connect_state(connection);
	SSL_CTX_free(context);
	return tls_new(connection);
}

static enum tls_step shake(struct tls *tls, struct buffer *in, struct buffer *out)
{
	enum tls_step step;

	tls_feed(tls, buffer_view(in));
	step = tls_handshake(tls, out);
	tls_keep(tls);
	in->length = 0;
	return step;
}

Test(tls, a_ticket_leaves_no_buffer_behind)
{
	struct tls *client = side_new(context_new(TLS_client_method()), false);
	struct tls *server = side_new(server_context(), true);
	auto_buffer struct buffer to_server = {0}, to_client = {0};
	char room[16];
	size_t length, before;

	cr_assert_eq(shake(client, &to_client, &to_server), TLS_MORE);
	cr_assert_eq(shake(server, &to_server, &to_client), TLS_MORE);
	cr_assert_eq(shake(client, &to_client, &to_server), TLS_DONE);
	cr_assert_eq(shake(server, &to_server, &to_client), TLS_DONE);
	cr_assert_gt(to_client.length, 0, "the server sends tickets");
	before = held();
	tls_feed(client, buffer_view(&to_client));
	cr_assert_eq(tls_read(client, room, sizeof(room), &length, &to_server), TLS_MORE);
	cr_assert_lt(held(), before + RECORD);
	tls_free(client);
	tls_free(server);
}
