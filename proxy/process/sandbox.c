/* The sandbox of `serve`: what takes over the process can start no program, write no file, and read
 * few. */
#include "proxy/process/sandbox.h"

#include "proxy/base/log.h"
#include "proxy/process/landlock.h"
#include "proxy/process/seccomp.h"

#include <errno.h>
#include <libgen.h>
#include <mongoc/mongoc.h>
#include <stdlib.h>
#include <sys/prctl.h>

/* A program that counts what runs writes its counts at the end: the sandbox would not let it. */
#ifdef SPILLWAY_COVERAGE
#define SHUT_IN false
#else
#define SHUT_IN true
#endif

/* Folders that are read from: a replaced file is another one, below the same folder. */
struct folders {
	char **list; /* ends with NULL */
	size_t count;
};

static void add_folder(struct folders *folders, const char *folder)
{
	size_t size = (folders->count + 2) * sizeof(*folders->list);

	folders->list = must_realloc((void *)folders->list, size);
	folders->list[folders->count++] = must_strndup(folder, strlen(folder));
	folders->list[folders->count] = NULL;
}

static void add_folder_of(struct folders *folders, const char *path)
{
	auto_free char *copy = must_strndup(path, strlen(path));

	add_folder(folders, dirname(copy));
}

/* The file's folder, and the one that a link leads to. */
static void add_file(struct folders *folders, const char *path)
{
	char *real = path ? realpath(path, NULL) : NULL;

	if (path)
		add_folder_of(folders, path);
	if (real)
		add_folder_of(folders, real);
	free(real);
}

static void add_uri_files(struct folders *folders, const char *text)
{
	mongoc_uri_t *uri = text ? mongoc_uri_new(text) : NULL;

	if (!uri)
		return;
	add_file(folders, mongoc_uri_get_option_as_utf8(uri, MONGOC_URI_TLSCAFILE, NULL));
	add_file(folders,
		 mongoc_uri_get_option_as_utf8(uri, MONGOC_URI_TLSCERTIFICATEKEYFILE, NULL));
	mongoc_uri_destroy(uri);
}

/* A file that the configuration names; NULL: none. */
static void add_named(struct folders *folders, const struct config *config, const char *path)
{
	auto_free char *whole = path ? config_beside(config->file, path) : NULL;

	add_file(folders, whole);
}

static void add_tls(struct folders *folders, const struct config *config,
		    const struct config_tls *tls)
{
	add_named(folders, config, tls->cert);
	add_named(folders, config, tls->key);
	add_named(folders, config, tls->ca);
}

static void add_named_files(struct folders *folders, const struct config *config)
{
	for (size_t i = 0; i < config->listen_count; i++)
		add_tls(folders, config, &config->listen[i].tls);
	add_tls(folders, config, &config->server_tls);
	for (char *const *path = config->included; path && *path; path++)
		add_file(folders, *path);
	add_named(folders, config, config->uri_file);
	add_named(folders, config, config->admin.token_file);
	add_named(folders, config, config->admin.tls.cert);
	add_named(folders, config, config->admin.tls.key);
}

static int shield_files(const struct config *config)
{
	struct folders folders = {0};
	const char *store = getenv("SSL_CERT_DIR");
	int version;

	if (config->file)
		add_folder_of(&folders, config->file);
	add_named_files(&folders, config);
	add_uri_files(&folders, config->upstream_uri);
	add_file(&folders, getenv("SSL_CERT_FILE"));
	add_file(&folders, getenv("OPENSSL_CONF"));
	if (store)
		add_folder(&folders, store);
	version = landlock_enter((const char *const *)folders.list);
	for (size_t i = 0; i < folders.count; i++)
		free(folders.list[i]);
	free((void *)folders.list);
	return version;
}

struct sandbox sandbox_enter(const struct config *config)
{
	struct sandbox sandbox = {.wanted = true};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && SHUT_IN) {
		sandbox.landlock = shield_files(config);
		sandbox.filters = seccomp_enter();
	}
	sandbox.error = sandbox.filters ? 0 : errno;
	return sandbox;
}

void sandbox_tell(const struct sandbox *sandbox)
{
	if (!sandbox->wanted)
		return;
	if (sandbox->landlock == 0)
		log_info("1021 the sandbox has no landlock in this kernel: files that the user may "
			 "read "
			 "stay readable");
	if (!sandbox->filters)
		log_warning("1022 the sandbox has no filter of system calls: %s",
			    strerror(sandbox->error));
}
