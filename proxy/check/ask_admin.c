/* One HTTP/1.0 request to the admin address. */
#include "proxy/check/ask_admin.h"

#include "proxy/base/address.h"
#include "rules/rule/text.h"

#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define ANSWER_MAX (4 << 20)
#define ANSWER_SECONDS 5

static int open_connection(const char *address)
{
	struct sockaddr_storage where = {0};
	struct timeval patience = {.tv_sec = ANSWER_SECONDS};
	int connection;

	if (!address_resolve_now(address, &where))
		return -1;
	connection = socket(where.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connection < 0)
		return -1;
	setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (connect(connection, (struct sockaddr *)&where, sizeof(where)) == 0)
		return connection;
	close(connection);
	return -1;
}

/* No CA is asked: whoever runs `check` has the server's own certificate at hand. */
static bool shows_cert(SSL *tls, const char *pem)
{
	BIO *source = BIO_new_mem_buf(pem, -1);
	X509 *known = PEM_read_bio_X509(source, NULL, NULL, NULL);
	X509 *shown = SSL_get1_peer_certificate(tls);
	bool same = known && shown && X509_cmp(known, shown) == 0;

	X509_free(shown);
	X509_free(known);
	BIO_free(source);
	return same;
}

/* The whole answer, with a NUL behind it; empty if it does not come. */
static void exchange_plainly(int connection, const struct buffer *request, struct buffer *answer)
{
	ssize_t got = 1;

	if (send(connection, request->data, request->length, MSG_NOSIGNAL) !=
	    (ssize_t)request->length)
		return;
	while (got > 0 && answer->length < ANSWER_MAX) {
		buffer_reserve(answer, 4097);
		got = recv(connection, answer->data + answer->length, 4096, 0);
		answer->length += got > 0 ? (size_t)got : 0;
	}
	if (got != 0)
		answer->length = 0;
}

static void exchange_over(SSL *tls, const char *cert, const struct buffer *request,
			  struct buffer *answer)
{
	int got = 1;

	if (SSL_connect(tls) != 1 || (*cert && !shows_cert(tls, cert)) ||
	    SSL_write(tls, request->data, (int)request->length) != (int)request->length)
		return;
	while (got > 0 && answer->length < ANSWER_MAX) {
		buffer_reserve(answer, 4097);
		got = SSL_read(tls, answer->data + answer->length, 4096);
		answer->length += got > 0 ? (size_t)got : 0;
	}
	if (SSL_get_error(tls, got) != SSL_ERROR_ZERO_RETURN)
		answer->length = 0;
}

static void exchange_by_tls(int connection, const char *cert, const struct buffer *request,
			    struct buffer *answer)
{
	SSL_CTX *context = SSL_CTX_new(TLS_client_method());
	SSL *tls = context ? SSL_new(context) : NULL;

	if (tls && SSL_set_fd(tls, connection) == 1)
		exchange_over(tls, cert, request, answer);
	SSL_free(tls);
	SSL_CTX_free(context);
}

/* NULL: it is no answer of HTTP. */
static char *body_of(struct buffer *answer, int *status)
{
	char *body;

	*status = 0;
	if (answer->length < 12)
		return NULL;
	answer->data[answer->length] = '\0';
	*status = atoi((const char *)answer->data + 9);
	body = strstr((char *)answer->data, "\r\n\r\n");
	return body ? must_strndup(body + 4, strlen(body + 4)) : NULL;
}

static char *ask(const struct config *config, const struct admin_files *files, const char *head,
		 int *status)
{
	auto_buffer struct buffer request = {0}, answer = {0};
	const char *address = config->admin.address;
	int connection = open_connection(address);

	*status = 0;
	if (connection < 0)
		return NULL;
	signal(SIGPIPE, SIG_IGN); /* OpenSSL writes to sockets as to files */
	text_append(&request, "%sHost: %s\r\n", head, address);
	if (files->token)
		text_append(&request, "Authorization: Bearer %s\r\n", files->token);
	text_append(&request, "\r\n");
	if (files->cert)
		exchange_by_tls(connection, files->cert, &request, &answer);
	else
		exchange_plainly(connection, &request, &answer);
	close(connection);
	explicit_bzero(request.data, request.length);
	return body_of(&answer, status);
}

char *ask_admin_status(const struct config *config, const struct admin_files *files,
		       const char *path, int *status)
{
	auto_buffer struct buffer head = {0};
	char *body;

	text_append(&head, "GET %s HTTP/1.0\r\n", path);
	buffer_append(&head, "", 1);
	body = ask(config, files, (const char *)head.data, status);
	if (*status == 200)
		return body;
	free(body);
	return NULL;
}

char *ask_admin(const struct config *config, const struct admin_files *files, const char *path)
{
	int status;

	return ask_admin_status(config, files, path, &status);
}

char *ask_anybody(const struct config *config, const char *path)
{
	static char any[] = "";
	const struct admin_files files = {.cert = config->admin.tls.cert ? any : NULL};

	return ask_admin(config, &files, path);
}

char *ask_admin_for(const struct config *config, const struct admin_files *files, const char *path,
		    int *status)
{
	auto_buffer struct buffer head = {0};

	text_append(&head, "POST %s HTTP/1.0\r\nSpillway-Reload: 1\r\nContent-Length: 0\r\n", path);
	buffer_append(&head, "", 1);
	return ask(config, files, (const char *)head.data, status);
}
