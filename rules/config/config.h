/* The configuration file (docs/configuration.md) as the program uses it: everything with its
 * default filled in. */
#pragma once

#include "rules/rule/rules.h"

#define CONFIG_WORKERS_MAX 256
#define CONFIG_MEMBERS_MAX 256 /* ports of a replica set */

enum config_client_cert {
	CONFIG_CLIENT_CERT_NONE,     /* clients are not asked for a certificate */
	CONFIG_CLIENT_CERT_OPTIONAL, /* a certificate that a client shows must be good */
	CONFIG_CLIENT_CERT_REQUIRED,
};

enum config_tls_version {
	CONFIG_TLS_1_2,
	CONFIG_TLS_1_3,
};

/* TLS on one side of the client path. Files are named as the configuration names them: from its
 * folder. */
struct config_tls {
	bool on;
	char *cert; /* PEM: the certificate, and those that lead to its CA */
	char *key;  /* PEM; NULL: it is in `cert` */
	char *ca;   /* PEM: whose certificates are believed; NULL: the system's */
	enum config_client_cert client_cert; /* of a listener */
	char *server_name; /* of servers: the name their certificates must have; NULL: the host's */
	enum config_tls_version min_version;
};

struct config_listen {
	char *address; /* host:port to listen on */
	char *server;  /* host:port of the server behind it; NULL: see struct config_replica_set */
	char *advertise; /* host:port that `hello` tells clients */
	struct config_tls tls;
	char **proxied; /* addresses and networks of load balancers that send a PROXY header; NULL:
			   none */
	bool open;      /* clients can connect there; not: see rules/config/config_listen.h */
};

/* All members of a replica set: `listen` of struct config has an entry for each port of the range.
 * The entry at place n is for the member whose `_id` is n (proxy/base/places.h). */
struct config_replica_set {
	bool on;
	bool others_allowed; /* that advertise other addresses (proxy/upstream/apart.h) */
	bool is_account;     /* the seed became config's upstream_uri */
	char *seed;          /* without its secrets; NULL: the upstream account's servers */
	char *listen;        /* host:first-last */
	char *advertise;     /* a host */
	struct config_tls tls;
	char **proxied;
};

enum config_log_level {
	CONFIG_LOG_ERROR,
	CONFIG_LOG_WARNING,
	CONFIG_LOG_INFO,
	CONFIG_LOG_DEBUG,
};

struct config_limits {
	int64_t connections;
	int64_t connections_per_address; /* 0: off */
	int64_t handshake_ms;
	int64_t login_ms;
	int64_t progress_ms;
	int64_t before_login; /* bytes */
	int64_t drain_ms;
	int64_t handover_ms;
	int64_t memory; /* bytes */
};

/* How far the mover may load the servers. */
struct config_mover {
	int64_t rate;       /* documents a second; 0: off */
	int64_t max_lag_ms; /* of a secondary; 0: off */
	int64_t max_load;   /* operations at work or waiting in the server; 0: off */
};

/* The status page and its like. */
struct config_admin {
	char *address; /* host:port; NULL: off */
	char **hosts;  /* further names that requests may use for it; ends with NULL; may be NULL */
	char *token_file; /* as the file has it (proxy/base/config_file.h); NULL: no token */
	struct {
		char *cert; /* as token_file; NULL: no TLS */
		char *key;
		bool only_1_3;
	} tls;
};

struct config {
	char *file; /* its own name: relative paths start from its folder */
	struct config_listen *listen;
	size_t listen_count;
	bool listen_shared; /* another configuration frees the array */
	struct config_replica_set
		replica_set; /* on: it holds the tls and proxied of all `listen` */
	struct config_tls
		server_tls; /* between Spillway and the servers, for clients' connections */
	char *upstream_uri; /* resolved: from the file, uri_file, the environment, or built from
			       listen */
	char *uri_file;     /* that it was read from, as the file has it; NULL: from none */
	struct config_admin admin;
	int64_t workers; /* 0 is already replaced by the number of cores */
	struct config_limits limits;
	struct config_mover mover;
	enum config_log_level log_level;
	bool log_json;
	int64_t observe_sample; /* millionths of the commands that no rule concerns; 0: off */
	int64_t log_slow_ms;    /* 0: off */
	char **include;         /* as the file has it: further files, of rules; may be NULL */
	char **included; /* all that were read, as they were opened; ends with NULL; may be NULL */
	struct rule_set *rules;
};

/* What reading a configuration needs of the world around it, which this floor does not touch
 * (proxy/base/config_file.h does). All zeros: no environment, no other files, no judge of URIs. */
struct config_world {
	const char *upstream_uri; /* $SPILLWAY_UPSTREAM_URI; NULL or empty: not set */
	bool others_may_read;     /* others than its owner may read the configuration file */
	/* What `uri_file` holds, without the end of its line; freed by the caller. NULL: *mistake
	 * (freed by the caller) says why. `name` is the configuration file's, whose folder a
	 * relative path starts from. */
	char *(*read_uri_file)(const char *name, const char *path, char **mistake);
	/* NULL: not set. */
	const char *(*variable)(const char *name);
	/* An included file; `name` and *mistake as above. */
	bool (*read_file)(const char *name, const char *path, struct buffer *content,
			  char **mistake);
	/* What else than uri_mistake (rules/config/uri.h) sees is wrong with a URI, freed by the
	 * caller; NULL: nothing. */
	char *(*uri_mistake)(const char *uri);
};

/* Reads a configuration; `name` stands in messages for the file. On failure NULL and *problems
 * (freed by the caller) holds one line a mistake, `NAME:LINE:COLUMN: what is wrong and what to do`:
 * every semantic mistake, or the first syntax error.
 *
 * The upstream account: the file's `uri` or `uri_file`; where it has neither,
 * $SPILLWAY_UPSTREAM_URI; else one without credentials is built from `listen`. A file with a
 * password in `uri` that others may read is refused. */
struct config *config_parse(const char *name, struct bytes text, const struct config_world *world,
			    char **problems);
void config_free(struct config *config);
/* Frees what the entry holds. */
void config_listen_fini(struct config_listen *listen);
/* `path` as it is seen from the folder of the file `name`; freed by the caller. */
char *config_beside(const char *name, const char *path);
struct setting;
/* One value as the file would have it, of a setting that is set; for text_append's buffers. */
void config_print_value(struct buffer *out, const struct setting *setting, const void *base);
/* The configuration with defaults filled in, as YAML text that config_parse reads back; freed by
 * the caller. No password in it. */
char *config_print(const struct config *config);
