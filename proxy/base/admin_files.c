/* Reads the files of the admin address, and judges them before anything listens. */
#include "proxy/base/admin_files.h"

#include "proxy/base/address.h"
#include "proxy/base/config_file.h"
#include "rules/rule/text.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdlib.h>

static void wipe(char *text)
{
	if (text)
		explicit_bzero(text, strlen(text));
	free(text);
}

void admin_files_fini(struct admin_files *files)
{
	wipe(files->token);
	wipe(files->key);
	free(files->cert);
	*files = (struct admin_files){0};
}

static bool is_wrong(char **mistake, const char *key, const char *path, const char *what)
{
	auto_buffer struct buffer text = {0};

	text_append(&text, "'%s' '%s' %s", key, text_quote(bytes_of(path)).text, what);
	*mistake = text_steal(&text);
	return false;
}

/* The file's text, without the white space behind it. */
static bool read_text(char **text, const struct config *config, const char *key, const char *path,
		      char **mistake)
{
	auto_buffer struct buffer content = {0};
	bool secret = strcmp(key, "admin.tls.cert") != 0;
	auto_free char *unread = config_read_named(config, path, secret, &content);

	if (unread)
		return is_wrong(mistake, key, path, unread);
	while (content.length > 0 && strchr("\r\n\t ", content.data[content.length - 1]))
		content.length--;
	if (content.length == 0)
		return is_wrong(mistake, key, path, "is empty");
	if (memchr(content.data, '\0', content.length))
		return is_wrong(mistake, key, path, "is no text: it holds a zero byte");
	*text = must_strndup((const char *)content.data, content.length);
	explicit_bzero(content.data, content.length);
	return true;
}

/* Of what a header can hold: ASCII without spaces. */
static bool load_token(struct admin_files *files, const struct config *config, char **mistake)
{
	const char *path = config->admin.token_file;

	if (!path)
		return true;
	if (!read_text(&files->token, config, "admin.token_file", path, mistake))
		return false;
	for (const char *at = files->token; *at; at++)
		if (*at <= ' ' || *at > '~')
			return is_wrong(mistake, "admin.token_file", path,
					"must hold one token: letters, digits and signs of ASCII, "
					"without spaces");
	if (strlen(files->token) < ADMIN_TOKEN_MIN)
		return is_wrong(mistake, "admin.token_file", path,
				"holds a token of fewer than 16 characters: make a longer one, as "
				"by 'openssl rand -hex 32'");
	return true;
}

/* Nobody is there to type one. */
static int no_passphrase(char *text, int size, int writing, void *context)
{
	(void)text;
	(void)size;
	(void)writing;
	(void)context;
	return -1;
}

static X509 *parse_cert(const char *text)
{
	BIO *source = BIO_new_mem_buf(text, -1);
	X509 *cert = PEM_read_bio_X509(source, NULL, no_passphrase, NULL);

	BIO_free(source);
	return cert;
}

static EVP_PKEY *parse_key(const char *text)
{
	BIO *source = BIO_new_mem_buf(text, -1);
	EVP_PKEY *key = PEM_read_bio_PrivateKey(source, NULL, no_passphrase, NULL);

	BIO_free(source);
	return key;
}

static bool judge_tls(const struct admin_files *files, const struct config *config, char **mistake)
{
	const char *cert_path = config->admin.tls.cert, *key_path = config->admin.tls.key;
	X509 *cert = parse_cert(files->cert);
	EVP_PKEY *key = parse_key(files->key);
	bool good = cert && key && X509_check_private_key(cert, key) == 1;

	if (!cert)
		is_wrong(mistake, "admin.tls.cert", cert_path, "holds no certificate in PEM form");
	else if (!key)
		is_wrong(mistake, "admin.tls.key", key_path,
			 "holds no private key in PEM form without a passphrase");
	else if (!good)
		is_wrong(mistake, "admin.tls.key", key_path,
			 "is not the key of the certificate in admin.tls.cert");
	X509_free(cert);
	EVP_PKEY_free(key);
	return good;
}

static bool load_tls(struct admin_files *files, const struct config *config, char **mistake)
{
	const char *cert = config->admin.tls.cert, *key = config->admin.tls.key;

	return !cert || (read_text(&files->cert, config, "admin.tls.cert", cert, mistake) &&
			 read_text(&files->key, config, "admin.tls.key", key, mistake) &&
			 judge_tls(files, config, mistake));
}

must_check bool admin_files_load(struct admin_files *files, const struct config *config,
				 char **mistake)
{
	struct admin_files loaded = {0};

	if (load_token(&loaded, config, mistake) && load_tls(&loaded, config, mistake)) {
		*files = loaded;
		return true;
	}
	admin_files_fini(&loaded);
	return false;
}

enum admin_exposure admin_exposure(const struct config *config)
{
	const struct config_admin *admin = &config->admin;
	struct sockaddr_storage address = {0};

	if (!admin->address || !address_resolve_now(admin->address, &address) ||
	    address_is_loopback(&address))
		return ADMIN_SAFE;
	if (!admin->token_file)
		return ADMIN_OPEN;
	return admin->tls.cert ? ADMIN_SAFE : ADMIN_CLEAR;
}
