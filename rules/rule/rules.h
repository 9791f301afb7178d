/* The rule set: which arrays of which namespaces are under a rule, and where their tails go.
 * Immutable once made. */
#pragma once

#include "protocol/bytes.h"

#include <stdatomic.h>

/* Bytes of an array's path: it stands in the names of fields in `_spill`, put together. */
#define RULE_ARRAY_MAX 480

enum rule_outlier {
	RULE_KEEP,  /* an outlier keeps its first `threshold` elements in the main document */
	RULE_EMPTY, /* an outlier's array is emptied */
};

/* Change streams of a ruled collection. */
enum rule_streams {
	RULE_STREAMS_EXACT,     /* they show what the application did */
	RULE_STREAMS_AS_STORED, /* they show what is stored */
	RULE_STREAMS_REFUSED,
};

enum rule_layout {
	RULE_BATCHES,  /* m elements an overflow document */
	RULE_ELEMENTS, /* one overflow document an element */
};

/* A BSON value by itself: type byte and value bytes (none for null). An `absent` value has type 0.
 */
struct rule_value {
	uint8_t type;
	struct bytes value; /* owned by the rule */
};

/* In an overflow collection's name: stands for the main collection's name. At most once. */
#define RULE_COLLECTION_MARK "{collection}"

/* One rule with its defaults filled in (docs/configuration.md). Strings are owned; NULL where
 * optional and absent. */
struct rule {
	char *name;
	char *database;   /* pattern: * matches any run of characters within the part */
	char *collection; /* the same */
	char *array;      /* dotted path */
	char *key;        /* the path's key in `_spill`: '.' written as '/' */
	int64_t threshold;
	int64_t max_bytes;
	int64_t fold_limit; /* bytes of a document: an edit takes no array back into a larger one */
	enum rule_outlier when_outlier;
	int64_t settle_ms;
	int64_t gather;
	int64_t quiet_ms;
	int64_t gc_delay_ms;
	int64_t sweep_ms;    /* 0: off */
	bool moves_existing; /* outliers that no client touches are moved by the sweep, too */
	bool read_only;      /* what is spilled is read whole; nothing is written or moved */
	enum rule_streams streams;
	bool skips_damaged; /* reads leave damaged documents out; else they fail */
	struct {
		char *field; /* NULL: the rule has no flag */
		struct rule_value value;
		struct rule_value otherwise; /* type 0: absent */
	} flag;
	struct {
		char *total;       /* NULL: none */
		char *documents;   /* NULL: none */
		bool owned_by_app; /* `total` is the application's own affair */
	} counters;
	struct {
		char *field; /* NULL: none */
		char *format;
	} reference;
	struct {
		bool flag, counters, reference;
	} expose;
	struct {
		char *database;   /* NULL: the main document's */
		char *collection; /* may hold {collection}, which stands for the main collection's
				     name */
		enum rule_layout layout;
		char *link;
		char *array;       /* layout batches: path-less name of the batch's array */
		char *batch_field; /* NULL: the number is kept in `_spill.i` */
		int64_t batch_size;
		int64_t batch_max_bytes;
		char *created;        /* NULL: none; layout elements: the elements' own
					 field that tells their order on adoption */
		bool listed;          /* clients see the collection in lists, and in dbStats */
		struct bytes indexes; /* BSON array of {keys: {...}, ...} as the file gives them;
					 empty where none; owned */
	} overflow;
	size_t index; /* its place in the set; metrics count by it */
};

/* As if clients saw all of its fields. */
static inline void rule_show_all(struct rule *rule)
{
	rule->expose.flag = rule->expose.counters = rule->expose.reference = true;
}

/* One rule at work on one concrete namespace. */
struct target {
	const struct rule *rule;
	char *overflow_database;
	char *overflow_collection;
	struct known_indexes *overflow_indexes; /* the set's; NULL: nothing will be known */
};

/* A concrete namespace under at least one rule. Lives until the cache that it came from evicts it
 * (namespace_cache_trim). */
struct ruled_namespace {
	char *database;
	char *collection;
	size_t target_count;
	struct target *targets;
	struct known_indexes *indexes; /* as in a target */
	uint64_t serial;        /* of the cache: no other namespace has ever had it; never 0 */
	atomic_size_t *holders; /* how many keep it from being evicted; NULL: none is counted */
};

/* The namespace as if the rule of this target were the only one on it. Lives as long as that does.
 */
static inline struct ruled_namespace ruled_alone(const struct ruled_namespace *namespace,
						 size_t target)
{
	struct ruled_namespace alone = *namespace;

	alone.targets = &namespace->targets[target];
	alone.target_count = 1;
	return alone;
}

struct rule_set;

/* Takes the rules over (the array and all it owns). Counted references, atomic: threads share the
 * set. */
struct rule_set *rule_set_new(struct rule *rules, size_t count);
struct rule_set *rule_set_ref(struct rule_set *set);
void rule_set_unref(struct rule_set *set);
size_t rule_set_count(const struct rule_set *set);
const struct rule *rule_set_at(const struct rule_set *set, size_t index);
void rule_fini(struct rule *rule);
bool rule_is_pattern(const struct rule *rule); /* of databases, collections or both */
/* The database of the overflow; of a rule on a pattern of databases, a pattern. */
const char *rule_overflow_database(const struct rule *rule);
/* The overflow collection's name for this main collection; freed by the caller. */
char *rule_overflow_collection(const struct rule *rule, struct bytes collection);

/* False only where no namespace with this collection name (in whatever database) is a main or an
 * overflow collection of any rule, nor a view that gives arrays short: the quick test on a
 * message's first bytes. */
bool rule_set_may_concern(const struct rule_set *set, struct bytes collection);

/* A loop's or thread's own memory of the namespaces it has met (a pattern is resolved once for
 * each). While it is shared, another thread may look into it, too. */
struct namespace_cache;

struct namespace_cache *namespace_cache_new(struct rule_set *set);
/* Of other rules; gives no serial that `before` has given. */
struct namespace_cache *namespace_cache_after(const struct namespace_cache *before,
					      struct rule_set *set);
void namespace_cache_free(struct namespace_cache *cache);
struct rule_set *namespace_cache_rules(struct namespace_cache *cache);
/* NULL where no rule is on the namespace; a pattern is not on overflow collections, nor on the
 * server's own. A hit allocates nothing.
 *
 * What only patterns match is bounded: between two trims NAMESPACE_CACHE_MAX may be held, then NULL
 * comes with *full = true (false in all other cases), and the caller fails closed. `full` NULL: of
 * a namespace that was found when the request was matched, which must not be missed now. */
#define NAMESPACE_CACHE_MAX 100000
const struct ruled_namespace *namespace_cache_find(struct namespace_cache *cache,
						   struct bytes database, struct bytes collection,
						   bool *full);
/* Evicts what only patterns match and was least used, down to NAMESPACE_CACHE_KEPT, a few at a
 * time. To be called between two requests: what was found before may be gone, unless it is held. */
#define NAMESPACE_CACHE_KEPT 20000
void namespace_cache_trim(struct namespace_cache *cache);
size_t namespace_cache_count(const struct namespace_cache *cache);
/* Lets one thread at a time look. The caller's, since no thread is known here. */
struct namespace_guard {
	void (*enter)(void *context);
	void (*leave)(void *context);
	void *context;
};
/* Set by the cache's own thread before another one looks into it, and taken away (NULL) after.
 * Nothing is evicted in between. */
void namespace_cache_share(struct namespace_cache *cache, const struct namespace_guard *guard);
/* Counted; any thread. The namespace may be NULL. Who remembers a namespace for long
 * remembers its serial instead. */
void namespace_hold(const struct ruled_namespace *namespace);
void namespace_release(const struct ruled_namespace *namespace);
/* Databases of the server's and of our own, and the server's collections in others: no rule is on
 * them, be it by name or by pattern, and no overflow lies there. A name with a `$` is no
 * collection's: cursors of commands have such ($cmd.listCollections). */
bool rule_spares_database(struct bytes database);
bool rule_spares_collection(struct bytes collection);
/* Whether it may be on collections of this database, by this text of its namespace. */
bool rule_pattern_matches_database(const char *pattern, struct bytes database);
/* Whether the rule's namespace means this one. Overflows of rules are not looked for. */
bool rule_matches(const struct rule *rule, struct bytes database, struct bytes collection);
/* The rule whose overflow lives in this namespace, else NULL. */
const struct rule *rule_set_overflow(const struct rule_set *set, struct bytes database,
				     struct bytes collection);

/* A view that reads or returns an array of this rule, as it is stored: short. */
struct short_view {
	const char *database;
	const char *collection;
	const struct rule *rule;
};

/* Those that are there; copies. One thread sets them, any may look. */
void rule_set_take_views(struct rule_set *set, const struct short_view *views, size_t count);
/* The rule whose array would come out of this view short; NULL where it is none of those. */
const struct rule *rule_set_short_view(const struct rule_set *set, struct bytes database,
				       struct bytes collection);
/* What is known of a collection's indexes (known_indexes.h); lives until all who asked for it have
 * left it. Any thread. */
struct known_indexes *rule_set_indexes(struct rule_set *set, struct bytes database,
				       struct bytes collection);
void rule_set_leave_indexes(struct rule_set *set, struct known_indexes *indexes);
/* Whether any rule may be on collections of this database. */
bool rule_set_in_database(const struct rule_set *set, struct bytes database);
/* One that is read-only and may be on collections of this database, else NULL. */
const struct rule *rule_set_read_only(const struct rule_set *set, struct bytes database);
/* Whether one of the namespace's rules is. */
bool rule_set_may_only_read(const struct rule_set *set, struct bytes database,
			    struct bytes collection);
/* One that refuses change streams and whose collections or overflow may be in this database, else
 * NULL. */
const struct rule *rule_set_stream_refused(const struct rule_set *set, struct bytes database);
/* Some rule whose collections or overflow may be in this database has such change streams.
 * `database` empty: any rule. */
bool rule_set_has_streams(const struct rule_set *set, struct bytes database,
			  enum rule_streams streams);
/* One whose overflow lives in this database while its collections may be in another, else NULL. */
const struct rule *rule_set_overflow_alone(const struct rule_set *set, struct bytes database);

/* How two dotted paths lie to each other. */
enum path_relation {
	PATH_APART,
	PATH_SAME,
	PATH_ABOVE, /* `path` is a prefix of `other`: writing it writes `other` as a whole */
	PATH_BELOW, /* `path` lies inside `other` */
};
enum path_relation path_relate(struct bytes path, const char *other);
/* PATH_SAME or PATH_ABOVE. */
bool path_covers(struct bytes path, const char *other);
