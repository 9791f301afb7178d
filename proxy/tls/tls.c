/* Drives OpenSSL by a BIO of our own, which reads from a view and writes to a buffer. */
#include "proxy/tls/tls.h"

#include "proxy/tls/tls_claim.h"

#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <stdio.h>
#include <stdlib.h>

#define REASON_MAX 160
#define PLAIN "the other end does not speak TLS"
#define TOO_LONG "its ClientHello is too long"

struct tls {
	SSL *connection;
	struct bytes in;         /* what is left of what was fed */
	struct buffer kept;      /* `in` looks into it, if it is not empty */
	struct buffer *out;      /* during one call */
	char *reason;            /* NULL: it has not failed */
	bool begun;              /* some bytes have come */
	bool plain;              /* and they were not TLS's */
	struct tls_claim *claim; /* owned; of a client whose handshake is not over, else NULL */
	bool refused;            /* it claims too much */
};

static int bio_read(BIO *bio, char *room, int size)
{
	struct tls *tls = BIO_get_data(bio);
	size_t length = least(tls->in.length, (size_t)size);

	BIO_clear_retry_flags(bio);
	if (length == 0) {
		BIO_set_retry_read(bio);
		return -1;
	}
	tls->refused = tls->claim && !tls_claim_take(tls->claim, tls->connection,
						     (struct bytes){tls->in.data, length});
	if (tls->refused)
		return -1;
	memcpy(room, tls->in.data, length);
	tls->in.data += length;
	tls->in.length -= length;
	return (int)length;
}

static int bio_write(BIO *bio, const char *bytes, int length)
{
	struct tls *tls = BIO_get_data(bio);

	BIO_clear_retry_flags(bio);
	buffer_append(tls->out, bytes, (size_t)length);
	return length;
}

static long bio_control(BIO *bio, int command, long number, void *pointer)
{
	(void)bio;
	(void)number;
	(void)pointer;
	return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *method;

/* At the end, for those who look for memory that was not freed. */
static void free_method(void)
{
	BIO_meth_free(method);
}

static void make_method(void)
{
	method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "spillway");
	require(method && BIO_meth_set_read(method, bio_read) == 1 &&
		BIO_meth_set_write(method, bio_write) == 1 &&
		BIO_meth_set_ctrl(method, bio_control) == 1);
	atexit(free_method);
}

struct tls *tls_new(SSL *connection)
{
	static CRYPTO_ONCE once = CRYPTO_ONCE_STATIC_INIT;
	struct tls *tls = must_calloc(1, sizeof(*tls));
	BIO *bio;

	require(CRYPTO_THREAD_run_once(&once, make_method) == 1);
	bio = BIO_new(method);
	require(bio);
	BIO_set_data(bio, tls);
	BIO_set_init(bio, 1);
	tls->connection = connection;
	if (SSL_is_server(connection))
		tls->claim = must_calloc(1, sizeof(*tls->claim));
	SSL_set_bio(connection, bio, bio);
	return tls;
}

void tls_free(struct tls *tls)
{
	if (!tls)
		return;
	/* Or OpenSSL would not resume the session of a connection that ended without farewell. */
	if (!tls->reason)
		SSL_set_shutdown(tls->connection, SSL_SENT_SHUTDOWN);
	SSL_free(tls->connection);
	buffer_fini(&tls->kept);
	free(tls->claim);
	free(tls->reason);
	free(tls);
}

void tls_feed(struct tls *tls, struct bytes sealed)
{
	if (!tls->begun && sealed.length > 0) {
		tls->begun = true;
		tls->plain = sealed.data[0] != SSL3_RT_HANDSHAKE && sealed.data[0] != SSL3_RT_ALERT;
	}
	if (tls->in.length == 0) {
		tls->in = sealed;
		return;
	}
	tls_keep(tls);
	buffer_append(&tls->kept, sealed.data, sealed.length);
	tls->in = buffer_view(&tls->kept);
}

void tls_keep(struct tls *tls)
{
	struct buffer rest = {0};

	buffer_append(&rest, tls->in.data, tls->in.length);
	buffer_fini(&tls->kept);
	tls->kept = buffer_steal(&rest);
	tls->in = buffer_view(&tls->kept);
}

static void keep_reason(struct tls *tls)
{
	unsigned long code = ERR_peek_last_error();
	long verified = SSL_get_verify_result(tls->connection);
	const char *text = ERR_reason_error_string(code);
	char reason[REASON_MAX];

	snprintf(reason, sizeof(reason), "%s%s%s", text ? text : "the connection ended",
		 verified != X509_V_OK ? ": " : "",
		 verified != X509_V_OK ? X509_verify_cert_error_string(verified) : "");
	free(tls->reason);
	tls->reason = must_strndup(reason, strlen(reason));
}

static void keep_text(struct tls *tls, const char *text)
{
	free(tls->reason);
	tls->reason = must_strndup(text, strlen(text));
}

/* What a call that did not succeed means. */
static enum tls_step judge(struct tls *tls, int result)
{
	switch (SSL_get_error(tls->connection, result)) {
	case SSL_ERROR_WANT_READ:
		return TLS_MORE;
	case SSL_ERROR_ZERO_RETURN:
		return TLS_ENDED;
	default:
		if (tls->refused)
			keep_text(tls, TOO_LONG);
		else
			keep_reason(tls);
		return TLS_FAILED;
	}
}

must_check enum tls_step tls_handshake(struct tls *tls, struct buffer *out)
{
	int result;

	/* OpenSSL would send an alert, and a client that does not know TLS would read it. */
	if (tls->plain) {
		keep_text(tls, PLAIN);
		return TLS_FAILED;
	}
	ERR_clear_error();
	tls->out = out;
	result = SSL_do_handshake(tls->connection);
	if (result != 1)
		return judge(tls, result);
	free(tls->claim);
	tls->claim = NULL;
	return TLS_DONE;
}

must_check enum tls_step tls_read(struct tls *tls, void *room, size_t size, size_t *length,
				  struct buffer *out)
{
	enum tls_step step;
	int result;

	ERR_clear_error();
	tls->out = out;
	result = SSL_read(tls->connection, room, (int)least(size, INT_MAX));
	if (result <= 0) {
		step = judge(tls, result);
		/* For a ticket OpenSSL makes the buffer for writing, and would keep it until the
		 * next write. */
		if (step == TLS_MORE)
			(void)SSL_free_buffers(tls->connection);
		return step;
	}
	*length = (size_t)result;
	return TLS_DONE;
}

must_check bool tls_write(struct tls *tls, struct bytes plain, struct buffer *out)
{
	tls->out = out;
	while (plain.length > 0) {
		int result;

		ERR_clear_error();
		result = SSL_write(tls->connection, plain.data, (int)least(plain.length, INT_MAX));
		if (result <= 0) {
			keep_reason(tls);
			return false;
		}
		plain.data += result;
		plain.length -= (size_t)result;
	}
	return true;
}

void tls_end(struct tls *tls, struct buffer *out)
{
	ERR_clear_error();
	tls->out = out;
	if (!tls->reason && SSL_is_init_finished(tls->connection))
		(void)SSL_shutdown(tls->connection);
}

bool tls_met_plain(const struct tls *tls)
{
	return tls->plain;
}

bool tls_resumed(const struct tls *tls)
{
	return SSL_session_reused(tls->connection);
}

const char *tls_reason(const struct tls *tls)
{
	return tls->reason ? tls->reason : "nothing failed";
}
