/*
 * A libnvidia-ml.so.1 that shows a trace (hosttune/measure/gpu/replay.py says how one is written), for machines without
 * a GPU. Only what nvidia-ml-py calls on our behalf is here; structures are as in NVIDIA's NVML API reference.
 *
 * FAKE_NVML_TRACE   the file
 * FAKE_NVML_CLOCK   "wall" (seconds since the first look) or "call" (one second for each look at the first device)
 * FAKE_NVML_INIT    what nvmlInit returns: 9 driver not loaded, 18 version mismatch
 * FAKE_NVML_REFUSE  NAME=CODE,NAME=CODE...: these functions return this instead, e.g. nvmlDeviceGetName=4
 * FAKE_NVML_SLOW    NAME=MILLISECONDS,...: these take so long; nvmlInitWithFlags too
 *
 * -DWITHOUT_NEW leaves out the functions that came with drivers 510 to 535.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SUCCESS = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, LOST = 15 };
enum { UTIL, USED, TOTAL, POWER, LIMIT, CLOCK, REASONS, PIDS, CELLS };
#define MOST 64
#define MIB (1024ULL * 1024)

struct device {
    char key[16], uuid[64], name[80];
    int index, is_mig;
};
struct step {
    double at;
    int device, is_lost;
    char cell[CELLS][96];
};

static struct device devices[MOST];
static struct step steps[4096];
static int device_count, step_count, looks;
static double begun;

static int setting(const char *variable, const char *function)
{
    char text[512], *save = NULL;
    snprintf(text, sizeof text, "%s", getenv(variable) ? getenv(variable) : "");
    for (char *one = strtok_r(text, ",", &save); one; one = strtok_r(NULL, ",", &save)) {
        char *value = strchr(one, '=');
        if (value && (size_t)(value - one) == strlen(function) && !strncmp(one, function, strlen(function)))
            return atoi(value + 1);
    }
    return 0;
}

static int enter(const char *function)
{
    int milliseconds = setting("FAKE_NVML_SLOW", function);
    struct timespec pause = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
    if (milliseconds)
        nanosleep(&pause, NULL);
    return setting("FAKE_NVML_REFUSE", function);
}
#define ENTER() do { int refused = enter(__func__); if (refused) return refused; } while (0)

static int find(const char *key)
{
    for (int i = 0; i < device_count; i++)
        if (!strcmp(devices[i].key, key))
            return i;
    return -1;
}

static void load(void)
{
    char line[1024], key[16], word[16];
    FILE *file = fopen(getenv("FAKE_NVML_TRACE") ? getenv("FAKE_NVML_TRACE") : "", "r");
    device_count = step_count = looks = 0;
    begun = 0;
    while (file && fgets(line, sizeof line, file)) {
        struct device *d = &devices[device_count];
        struct step *s = &steps[step_count];
        line[strcspn(line, "#\n")] = 0;
        if (sscanf(line, "%15s", word) != 1)
            continue;
        if (!strcmp(word, "at")) {
            int cells = sscanf(line, "at %lf %15s %95s %95s %95s %95s %95s %95s %95s %95s", &s->at, key, s->cell[0], s->cell[1],
                               s->cell[2], s->cell[3], s->cell[4], s->cell[5], s->cell[6], s->cell[7]);
            s->is_lost = cells >= 3 && !strcmp(s->cell[0], "lost");
            s->device = find(key);
            step_count++;
        } else if (sscanf(line, "%*s %15s %63s %79[^\n]", d->key, d->uuid, d->name) >= 2) {
            d->is_mig = !strcmp(word, "mig");
            d->index = atoi(d->key);
            device_count++;
        }
    }
    if (file)
        fclose(file);
}

static double now(void)
{
    struct timespec t;
    const char *clock = getenv("FAKE_NVML_CLOCK");
    if (clock && !strcmp(clock, "call"))
        return looks - 1;
    clock_gettime(CLOCK_MONOTONIC, &t);
    double seconds = t.tv_sec + t.tv_nsec / 1e9;
    if (!begun)
        begun = seconds;
    return seconds - begun;
}

/* What the device shows now; *cell is "-" where the trace has nothing of it. */
static int show(struct device *d, int column, const char **cell)
{
    struct step *found = NULL;
    for (int i = 0; i < step_count; i++)
        if (&devices[steps[i].device] == d && steps[i].at <= now() && (!found || steps[i].at >= found->at))
            found = &steps[i];
    if (found && found->is_lost)
        return LOST;
    *cell = found && found->cell[column][0] ? found->cell[column] : "-";
    return strcmp(*cell, "-") ? SUCCESS : NOT_SUPPORTED;
}

static int number(struct device *d, int column, double scale, unsigned *out)
{
    const char *cell;
    int code = show(d, column, &cell);
    if (!code)
        *out = (unsigned)(atof(cell) * scale + 0.5);
    return code;
}

const char *nvmlErrorString(int code) { static char text[32]; snprintf(text, sizeof text, "fake error %d", code); return text; }

int nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    ENTER();
    load();
    return getenv("FAKE_NVML_INIT") ? atoi(getenv("FAKE_NVML_INIT")) : SUCCESS;
}

int nvmlShutdown(void) { return SUCCESS; }

int nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = 0;
    for (int i = 0; i < device_count; i++)
        *count += !devices[i].is_mig;
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct device **out)
{
    char key[16], name[48];
    snprintf(key, sizeof key, "%u", index);
    snprintf(name, sizeof name, "handle/%u", index);
    if (setting("FAKE_NVML_REFUSE", name))
        return setting("FAKE_NVML_REFUSE", name);
    if (find(key) < 0)
        return INVALID;
    *out = &devices[find(key)];
    return SUCCESS;
}

int nvmlDeviceGetUUID(struct device *d, char *out, unsigned length) { ENTER(); snprintf(out, length, "%s", d->uuid); return SUCCESS; }
int nvmlDeviceGetName(struct device *d, char *out, unsigned length) { ENTER(); snprintf(out, length, "%s", d->name); return SUCCESS; }

int nvmlDeviceGetUtilizationRates(struct device *d, unsigned *out)
{
    ENTER();
    out[1] = 0;
    return number(d, UTIL, 1, &out[0]);
}

static int memory(struct device *d, unsigned long long *total, unsigned long long *used)
{
    const char *cell;
    int code = show(d, TOTAL, &cell);
    if (code)
        return code;
    *total = (unsigned long long)atoll(cell) * MIB;
    code = show(d, USED, &cell);
    *used = code ? 0 : (unsigned long long)atoll(cell) * MIB;
    return code;
}

int nvmlDeviceGetMemoryInfo(struct device *d, unsigned long long *out)
{
    ENTER();
    if (d == devices)
        looks++;
    int code = memory(d, &out[0], &out[2]);
    out[1] = out[0] - out[2];
    return code;
}

int nvmlDeviceGetPowerUsage(struct device *d, unsigned *out) { ENTER(); return number(d, POWER, 1000, out); }
int nvmlDeviceGetPowerManagementLimit(struct device *d, unsigned *out) { ENTER(); return number(d, LIMIT, 1000, out); }

int nvmlDeviceGetClockInfo(struct device *d, unsigned kind, unsigned *out)
{
    ENTER();
    return kind == 1 ? number(d, CLOCK, 1, out) : INVALID;
}

static int reasons(struct device *d, unsigned long long *out)
{
    const char *cell;
    int code = show(d, REASONS, &cell);
    if (!code)
        *out = strtoull(cell, NULL, 16);
    return code;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(struct device *d, unsigned long long *out) { ENTER(); return reasons(d, out); }

struct process {
    unsigned pid;
    unsigned long long memory;
    unsigned instance[2];
};

static int processes(struct device *d, unsigned *count, struct process *out)
{
    const char *cell;
    char text[96], *save = NULL;
    unsigned found = 0, room = *count;
    int code = show(d, PIDS, &cell);
    if (code)
        return code;
    snprintf(text, sizeof text, "%s", strcmp(cell, "none") ? cell : "");
    for (char *one = strtok_r(text, ",", &save); one; one = strtok_r(NULL, ",", &save), found++)
        if (out && found < room)
            out[found] = (struct process){(unsigned)atoi(one), 100 * MIB, {~0U, ~0U}};
    *count = found;
    return found > room ? TOO_SMALL : SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v2(struct device *d, unsigned *n, struct process *out) { ENTER(); return processes(d, n, out); }

int nvmlDeviceGetMigMode(struct device *d, unsigned *current, unsigned *pending)
{
    ENTER();
    *current = 0;
    for (int i = 0; i < device_count; i++)
        *current |= devices[i].is_mig && devices[i].index == d->index;
    *pending = *current;
    return SUCCESS;
}

int nvmlDeviceGetMaxMigDeviceCount(struct device *d, unsigned *out) { (void)d; *out = 7; return SUCCESS; }

int nvmlDeviceGetMigDeviceHandleByIndex(struct device *d, unsigned place, struct device **out)
{
    char key[32];
    snprintf(key, sizeof key, "%d/%u", d->index, place);
    if (find(key) < 0)
        return NOT_FOUND;
    *out = &devices[find(key)];
    return SUCCESS;
}

#ifndef WITHOUT_NEW
struct memory_v2 {
    unsigned version;
    unsigned long long total, reserved, free, used;
};

int nvmlDeviceGetMemoryInfo_v2(struct device *d, struct memory_v2 *out)
{
    ENTER();
    if (d == devices)
        looks++;
    out->reserved = 0;
    int code = memory(d, &out->total, &out->used);
    out->free = out->total - out->used;
    return code;
}

int nvmlDeviceGetEnforcedPowerLimit(struct device *d, unsigned *out) { ENTER(); return number(d, LIMIT, 1000, out); }
int nvmlDeviceGetCurrentClocksEventReasons(struct device *d, unsigned long long *out) { ENTER(); return reasons(d, out); }
int nvmlDeviceGetComputeRunningProcesses_v3(struct device *d, unsigned *n, struct process *out) { ENTER(); return processes(d, n, out); }
int nvmlDeviceGetMPSComputeRunningProcesses_v3(struct device *d, unsigned *n, struct process *out)
{
    (void)d, (void)out;
    ENTER();
    *n = 0;
    return SUCCESS;
}
#endif
