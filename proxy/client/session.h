/* A client's connection and the server connection that belongs to it: opened together, closed
 * together.
 *
 *   OPENING ──► RELAYING ◄──► REWRITING
 *      │            │              │
 *      └────────────┴──────────────┴──────► CLOSING
 *
 *   OPENING     the server connection is being made; nothing is read from the client but its
 *               handshake of TLS, which comes first
 *   RELAYING    requests and replies pass; those that need more are looked at
 *   REWRITING   a sequence runs, or may have to; the client's further requests wait
 *   CLOSING     both handles are being closed
 *
 * A session that is not admitted starts in RELAYING without a server connection: its first request
 * is answered with an error. */
#pragma once

#include "proxy/crowd/clients.h"
#include "proxy/client/loop.h"
#include "proxy/client/pending.h"
#include "proxy/client/stream.h"
#include "protocol/skim.h"
#include "rules/match/match.h"
#include "rules/sequence/permission.h"
#include "rules/sequence/sequence.h"

#include <bson/bson.h>

enum session_state {
	SESSION_OPENING,
	SESSION_RELAYING,
	SESSION_REWRITING,
	SESSION_CLOSING,
};

/* Decided once, when the client connects. */
enum session_admission {
	SESSION_ADMITTED,
	SESSION_TOO_EARLY,      /* mover_admits nobody yet */
	SESSION_TOO_MANY,       /* limits.connections is reached */
	SESSION_TOO_MANY_THERE, /* limits.connections_per_address is reached */
	SESSION_FAR_TOO_MANY,   /* by as many refused ones again: closed without a word */
};

enum session_end {
	SESSION_END_DONE,  /* both sides have said all: close */
	SESSION_END_RESET, /* the peer was reset: so is the other */
};

/* A find that went out as it came (plain_find.h), and what its reply may need. */
struct session_find {
	struct buffer request;                   /* empty where none is under way */
	const struct ruled_namespace *namespace; /* held; NULL where none is under way */
	uint64_t asked;                          /* uv_now */
};

#define ACCEPTED_MOST 256

/* Where mongod has accepted a command of this connection, which it accepts of nobody without
 * rights: the serials of the latest namespaces (0: any). A namespace that was evicted and met again
 * has another. */
struct accepted {
	uint64_t *namespaces; /* owned */
	uint64_t last;
	uint16_t count, next;
	bool everywhere; /* nobody has signed in, and mongod has accepted a command: it does from
			    anybody */
};

/* mongod's verdict on the command of the running sequence. */
struct rights_question {
	struct permission_question text;
	bool asked; /* once for a sequence */
	bool open;  /* its answer is awaited */
	bool first; /* nothing else has been sent for the sequence */
	bool tries; /* not asked: what is sent first is the client's own command, whose reply tells
		     */
	bool own_sent; /* what was sent last are the client's own bytes */
};

#define SESSION_READABLE 4

/* What only clients need that ask for a ruled namespace. */
struct session_ruled {
	struct session_find find;
	struct rights_question question;
	/* Namespaces whose overflow the user may read: the serials of the latest; 0: none. */
	uint64_t readable[SESSION_READABLE];
	uint8_t readable_next;
	struct sequence_session own; /* of Spillway's own transactions on the connection */
};

/* What the connection's user is known to be allowed. */
struct session_rights {
	bool signed_in; /* or tried to */
	bool logged_in; /* has signed in once: limits.login is met */
	bool secret;    /* what goes by signs somebody in: copies of it are overwritten */
	bool proven;    /* mongod knows the user, or asks nobody who he is */
	bool denied;    /* mongod has just said that it does not */
	struct accepted accepted;
};

/* Who is at the client's end. */
struct session_peer {
	struct peer address;
	bool counted;               /* in the service's peers */
	char *application;          /* its name as the log shows it, from its hello; NULL: none */
	struct client_entry *entry; /* of clients.h, since its hello */
	char *driver;               /* name and version, in the same way */
};

/* The client's bytes. */
struct session_request {
	size_t left;         /* of the current frame, still to cut through */
	struct buffer held;  /* what waits */
	size_t wanted;       /* so many have to wait before looking again */
	uint8_t compressors; /* that server and client have agreed on: bits */
	uint8_t hellos;      /* that were asked for; 2: or more */
	uint8_t greetings;   /* the first ones that came: see session_turn.c */
	uint8_t fault;       /* enum strangers_kind: why the connection is to be closed */
	bool blocked;        /* the first whole frame waits for the replies that are owed */
	bool old;            /* the current frame goes through by rules that have changed since */
	uint32_t epoch;      /* the loop's, when the sequence, the find or the work elsewhere
				began */
	struct skim *shed;   /* the current frame is thrown away because there is no memory for it:
				what its sender has to be told */
};

/* The server's bytes. */
struct session_response {
	size_t left;        /* of the current frame, still to cut through */
	struct buffer held; /* what waits */
	size_t wanted;      /* so many have to wait before looking again */
	bool shed;          /* the current frame is thrown away: its read has given up */
};

/* An idle session has none. */
struct session_deadlines {
	struct session *session;
	struct deadline each[DEADLINE_KINDS];
};

struct session_memory {
	size_t accounted;    /* what waits, the sequence and what is unsent, in the service's sum */
	size_t unread;       /* when it was last looked whether the client takes its replies */
	uint8_t stalls;      /* such looks in a row that saw it take too little */
	uint32_t away;       /* with work of another thread (session_aside.h); 0: there is none */
	size_t unproven;     /* of it, what counts for the loop's unproven sessions */
	struct claim *claim; /* owned; NULL: it holds little */
};

struct session {
	struct stream client;
	struct stream server;
	struct loop *loop;
	struct session *next;
	struct session *previous;
	struct session_deadlines *deadlines; /* owned; NULL: none runs */
	struct session_peer peer;
	uint64_t id;
	uint32_t listen_index;
	enum session_state state;
	enum session_admission admission;
	uint8_t handles; /* open or closing; freed at 0 */
	bool in_transaction;
	bool works;   /* has asked for more than hello: no driver's monitor */
	bool waiting; /* the sequence waits for the replies that are owed before it */
	bool pinned;  /* the resolver or the mover will call back: the session must stay */
	int32_t next_request_id;
	struct session_request request;
	struct session_response response;
	struct session_memory memory;
	struct pending pending;
	struct sequence *sequence;   /* NULL while another thread works on it */
	struct session_ruled *ruled; /* owned; NULL until it is needed: session_ruled makes it */
	struct session_rights rights;
};

static inline struct session_ruled *session_ruled(struct session *session)
{
	if (!session->ruled)
		session->ruled = must_calloc(1, sizeof(*session->ruled));
	return session->ruled;
}

/* A find is under way that went out as it came. */
static inline bool session_finds(const struct session *session)
{
	return session->ruled && session->ruled->find.namespace;
}

static inline bool session_is_refused(const struct session *session)
{
	return session->admission != SESSION_ADMITTED;
}

/* session_open.c. Takes the accepted socket over. */
void session_open(struct loop *loop, uint32_t listen_index, int socket, const struct peer *peer);
static inline const char *session_server_name(const struct session *session)
{
	return places_latest(session->loop->service->places, session->listen_index);
}

/* Among those of its loop, and of those whose first request is awaited. */
void session_link(struct session *session);
/* It has asked for more than hello. */
void session_works(struct session *session);
/* Ends a session. Idempotent. */
void session_close(struct session *session, enum session_end how);
/* Although the client was reset: what the sequence holds at the server is to be ended there, and
 * nobody else can. While another thread works on the sequence, nobody knows. */
bool session_must_go_on(const struct session *session);
/* During a drain: closes the session if nothing is under way. */
void session_close_if_idle(struct session *session);
/* For an upgrade: closes the session if a driver monitors the server by it: it has asked for hello
 * more than once and for nothing else. */
void session_close_if_monitor(struct session *session);

/* libuv's callbacks, for stream.c. */
void session_on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buffer);
void session_on_read(uv_stream_t *handle, ssize_t length, const uv_buf_t *buffer);
/* The connection to the server is being made, and the client has done its part. */
bool session_awaits_server(const struct session *session);
/* The server does not do its part: closes the session. */
void session_give_server_up(struct session *session);
/* A connection to the server could not be made, or is lost. */
void session_fail_upstream(const struct session *session, int status);
/* The handshake of TLS on one side is over; `failure`: why there is no connection, or NULL. */
void session_on_secured(struct session *session, struct stream *stream, const char *failure);
/* Something that was queued has left: reading may go on. */
void session_on_drained(struct session *session);

/* More requests than these may not wait for their replies: the client is not read any further. */
#define SESSION_PENDING_MAX 1000

/* Above this backlog on one side, the other is not read. */
#define SESSION_BACKLOG_MAX 65536

/* The client does not take what is sent to it: nor are its requests taken. */
static inline bool session_client_lags(const struct session *session)
{
	return stream_backlog(&session->client) >= SESSION_BACKLOG_MAX;
}

/* Starts and stops reading on both sides as their backlogs and the state ask for. */
void session_adjust_reading(struct session *session);

/* Keeps the service's sum of held memory true. */
void session_account(struct session *session);

/* Keeps what unproven sessions of the loop hold below their share: may close some, this one too. */
void session_thin_out(struct session *session);

static inline void session_update_reading(struct session *session)
{
	bool flows = (session->state == SESSION_RELAYING ||
		      (session->state == SESSION_REWRITING && session->request.held.length == 0 &&
		       !session->memory.away)) &&
		     session->client.reading && session->server.reading &&
		     !session->client.waiting && !session->server.waiting &&
		     session->pending.count < SESSION_PENDING_MAX;

	if (!flows)
		session_adjust_reading(session);
	if (session->request.held.capacity || session->response.held.capacity ||
	    session->memory.accounted || session->sequence ||
	    (!flows && (session->client.waiting || session->server.waiting))) {
		session_account(session);
		session_thin_out(session);
	}
}

/* True while the system gives no memory. */
bool session_system_short(void);
/* True when what all sessions hold, and `more`, passes limits.memory, and while the system gives no
 * memory. */
bool session_memory_short(const struct session *session, size_t more);
/* True when memory is short and this session's sequence is among the newest that hold it. */
bool session_gives_up(const struct session *session);
void session_set_state(struct session *session, enum session_state state);
/* Passes on the ends of both sides as far as that is possible by now. */
void session_pass_ends(struct session *session);

/* session_request.c and session_response.c */
void request_on_bytes(struct session *session, struct bytes bytes);
/* Runs it as soon as mongod owes nothing before it; takes it over. */
void request_start_sequence(struct session *session, struct sequence *sequence);
/* session_refuse.c. The first request of a refused connection is answered with an error, and that
 * is all. */
void request_refuse_connection(struct session *session, struct buffer *frame);
/* A frame that there was no memory for has gone by. */
void request_on_shed(struct session *session);
/* A request whose sequence said AGAIN, or the next one of a stream; takes it over. */
void request_again(struct session *session, struct packet *packet, enum command_kind kind);
/* Looks again at what waits, after a sequence or a reply. */
void request_continue(struct session *session);
void response_on_bytes(struct session *session, struct bytes bytes);

/* session_advance.c: drives the running sequence. `reply` may be NULL. */
void session_advance(struct session *session, struct packet *reply, bool moved);
/* Takes the sequence's first step; mongod need not be asked for that, or cannot be. */
void session_begin_sequence(struct session *session);
/* Sends what the sequence has written; the reply resumes it. */
void session_send(struct session *session);
/* No memory is left for the rest of the reply to what the sequence sent: the sequence gives up. */
void session_give_up(struct session *session);
/* The reply to the find that is under way goes to the client as it is. */
void session_end_find(struct session *session);
/* The find's namespace is needed no longer. */
void session_leave_find(struct session *session);
/* The same reply, of which a sequence has to make another. */
void session_advance_find(struct session *session, struct packet *reply);
/* The client's next requests are looked at. */
void session_next_request(struct session *session);
/* Waits; then the sequence goes on, or the next requests are looked at. */
void session_pause(struct session *session, uint64_t milliseconds);

/* session_finish.c: the sequence is over, its answer goes to the client. */
void session_finish(struct session *session);
/* The same without an answer. */
void session_end_sequence(struct session *session);
/* The session closes: the mover is told what the running sequence, if any, may have done. */
void session_cut_sequence(struct session *session);

/* session_tell.c: what the log says of this client, once a minute of each kind. */
void session_tell(struct session *session, enum strangers_kind kind);
/* An error of Spillway's own that answers a request. */
struct session_refusal {
	const char *rule, *what; /* our own words, as metrics_refused has them */
	enum error_code code;
};
/* Some of a kind in a minute. */
void session_tell_refusal(struct session *session, const struct match *match,
			  const struct session_refusal *refusal);
/* Adds where the client comes from, its appName and its driver. */
void session_describe(const struct session *session, bson_t *details);
/* Keeps the names of application and driver of a hello's body. */
void session_note_application(struct session *session, struct bytes hello);
/* Counts and logs that the session is closed because its client is none of MongoDB's: `kind` is an
 * enum stranger or STRANGERS_LATER, `header` that of the message where it has one. */
void session_tell_stranger(struct session *session, unsigned kind,
			   const struct frame_header *header);

/* Counts and logs that the handshake of TLS with the client failed. */
void session_tell_unsecured(struct session *session, const char *failure);

/* session_measure.c: how long requests took; those of the sequence that ends now, and of a find
 * whose reply passed as it is. Slow ones are told. */
void session_measure(struct session *session);
void session_measure_find(struct session *session);

/* session_rights.c. A namespace of NULL: any. */
bool session_is_accepted(const struct session *session, const struct ruled_namespace *namespace);
/* mongod has accepted a command there that needs rights. */
void session_accept(struct session *session, const struct ruled_namespace *namespace);
/* From here on it may be another user's connection. */
void session_forget_rights(struct session *session);
/* Before the sequence's first step. True where mongod is asked first: the step waits. Where a long
 * request names nothing to ask about, session_begin_sequence follows. */
must_check bool session_asks_first(struct session *session);
/* Before the client hears an error that mongod may have said of another command, or that is ours:
 * the same. */
must_check bool session_asks_last(struct session *session);
/* The client tries to sign in. */
void session_signs_in(struct session *session);
/* The body of a reply to such a try, or of one to hello. */
void session_note_sign_in(struct session *session, struct bytes body);
/* A reply has come to what the sequence sent. */
void session_note_reply(struct session *session, const struct packet *reply);

/* session_proxied.c: whether the connection comes from a load balancer that sends a PROXY header.
 */
bool session_expects_header(const struct session *session);
/* Reads the header, then lets the session enter. */
void session_read_header(struct session *session);
/* Whether a client may use Spillway is decided once, when it is known where it comes from. */
void session_enter(struct session *session);

/* session_proof.c: what may be held for a client before mongod has accepted anything of it. */
bool session_is_proven(const struct session *session);
/* More than this is not unpacked for a client that is not proven. */
#define SESSION_UNPACKED_MOST 16384
/* Asks mongod whether it knows the user. The frame that is there waits. */
void session_ask_proof(struct session *session);
/* The answer. */
void session_take_proof(struct session *session, const struct packet *reply);
/* session_turn.c. Who had not signed in has asked for hello, or tried to sign in: the next request
 * is looked at, if there are too many at a later time. */
void session_rest_after_greeting(struct session *session);
/* An error of ours was answered: the same. */
void session_rest_after_refusal(struct session *session);
/* A request waits for the replies before it: if its client goes meanwhile, it is dropped. */
void session_look_after(struct session *session);
void session_look_again(struct session *session);

/* session_unread.c: somebody found memory too short. */
void session_note_shortage(const struct session *session);
/* Much may be on its way to the client. */
void session_watch_reader(struct session *session);
void session_look_at_reader(struct session *session);

enum rights_answer {
	RIGHTS_GO_ON,  /* with what waits */
	RIGHTS_ANSWER, /* the sequence's output is the answer */
	RIGHTS_PASS,   /* session_pass_answer */
};

/* The question's answer. */
must_check enum rights_answer session_take_answer(struct session *session,
						  const struct packet *reply);
/* The sequence ends with the answer's error. */
void session_pass_answer(struct session *session, struct packet *reply);

/* Deadlines: from now on, no more, passed. */
void session_await(struct session *session, enum deadline_kind kind);
void session_await_no_more(struct session *session, enum deadline_kind kind);
void session_on_overdue(struct session *session, enum deadline_kind kind);
static inline bool session_awaits(const struct session *session, enum deadline_kind kind)
{
	return session->deadlines && session->deadlines->each[kind].runs;
}
/* Looks whether the rest of a request is awaited; `progressed`: bytes of it have come. */
void session_watch_progress(struct session *session, bool progressed);
/* Frees the session when nothing holds on to it any more. */
void session_free_if_gone(struct session *session);

/* Copies a whole frame out of `bytes`, or takes the buffer that holds just this frame (`owner` may
 * be NULL). False where there is no memory. */
must_check bool session_take_frame(struct bytes bytes, size_t length, struct buffer *owner,
				   struct buffer *frame);

/* Keeps the first bytes of a frame, `wanted` of which are awaited, with room for more: for as many
 * again at most. Closes the session where there is no memory. */
void session_keep(struct session *session, struct buffer *held, struct bytes bytes, size_t wanted);

/* Bytes that were just read were read to where they wait (session_on_alloc). */
static inline bool session_stands_there(const struct buffer *held, struct bytes bytes)
{
	return held->capacity > 0 && bytes.data == held->data + held->length;
}

/* Adds bytes that were just read to those that wait. False where there is no memory. */
must_check bool session_hold(struct buffer *held, struct bytes bytes);

/* Closes a session that there is no memory for. */
void session_starve(struct session *session);
