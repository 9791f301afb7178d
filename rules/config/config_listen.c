/* Places for the listeners of a process that runs. */
#include "rules/config/config_listen.h"

#include "rules/config/config_change.h"

#include <stdlib.h>
#include <string.h>

void config_listen_spread(struct config *config)
{
	size_t count = config->listen_count + CONFIG_LISTEN_FREE;

	require(!config->replica_set.on);
	config->listen = must_realloc(config->listen, count * sizeof(*config->listen));
	memset(&config->listen[config->listen_count], 0,
	       CONFIG_LISTEN_FREE * sizeof(*config->listen));
	config->listen_count = count;
}

static bool is_free(const struct config_listen *place)
{
	return !place->address;
}

/* The place of this listener; if there is none, a free one, which then is this listener's; the
 * count: neither. */
static size_t find_place(struct listen_plan *plan, struct config_listen *listen)
{
	struct config *running = plan->running;
	size_t count = running->listen_count, i;

	for (i = 0; i < count; i++)
		if (!is_free(&running->listen[i]) &&
		    config_listen_equals(&running->listen[i], listen))
			return i;
	for (i = 0; i < count && !is_free(&running->listen[i]);)
		i++;
	if (i == count)
		return i;
	running->listen[i] = *listen;
	running->listen[i].open = false;
	*listen = (struct config_listen){0};
	plan->filled[i] = true;
	return i;
}

/* The fresh array is not needed any more. */
static void share(const struct config *running, struct config *fresh)
{
	for (size_t i = 0; i < fresh->listen_count; i++)
		config_listen_fini(&fresh->listen[i]);
	free(fresh->listen);
	fresh->listen = running->listen;
	fresh->listen_count = running->listen_count;
	fresh->listen_shared = true;
}

must_check bool listen_plan_make(struct listen_plan *plan, struct config *running,
				 struct config *fresh)
{
	size_t count = running->listen_count, place;

	*plan = (struct listen_plan){running, must_calloc(count, sizeof(bool)),
				     must_calloc(count, sizeof(bool))};
	for (size_t i = 0; i < fresh->listen_count; i++) {
		place = find_place(plan, &fresh->listen[i]);
		if (place == count)
			return false;
		plan->open[place] = true;
	}
	share(running, fresh);
	return true;
}

bool listen_plan_opens(const struct listen_plan *plan, size_t index)
{
	return plan->running && plan->open[index] && !plan->running->listen[index].open;
}

bool listen_plan_closes(const struct listen_plan *plan, size_t index)
{
	return plan->running && !plan->open[index] && plan->running->listen[index].open;
}

void listen_plan_take(struct listen_plan *plan)
{
	for (size_t i = 0; plan->running && i < plan->running->listen_count; i++) {
		plan->running->listen[i].open = plan->open[i];
		plan->filled[i] = false;
	}
}

void listen_plan_fini(struct listen_plan *plan)
{
	for (size_t i = 0; plan->running && i < plan->running->listen_count; i++) {
		if (!plan->filled[i])
			continue;
		config_listen_fini(&plan->running->listen[i]);
		plan->running->listen[i] = (struct config_listen){0};
	}
	free(plan->open);
	free(plan->filled);
	*plan = (struct listen_plan){0};
}
