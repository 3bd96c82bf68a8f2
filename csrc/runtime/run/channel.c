/* channel.c - moves bytes between the processes of a job, by the MPI that the host has loaded.
 *
 * This library is not linked with MPI: the host says where its functions are, and whether handles are
 * ints (MPICH) or pointers (Open MPI).  No call blocks: a step begins its transfer and asks again and
 * again whether it is over.  When that takes long it asks the host, which knows of the other processes,
 * whether to wait on. */
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#include "runtime/run/plan_run.h"

enum {
    MOST_CHANNELS = 256,
    SPINS = 256,       /* questions before the clock is looked at */
    YIELDS = 16,       /* questions before other threads have a turn */
    LOOK_NS = 2000000,        /* from one look of the host to the next */
    RARE_LOOK_NS = 100000000, /* the same of a thread that nobody waits for */
    AWAKE_NS = 20000000, /* so long this thread does not sleep: MPI moves bytes while it is asked */
    NAP_NS = 50000,
    LONGEST_NAP_NS = 800000 /* of a thread that nobody waits for: others have the cores */
};

typedef struct {
    uint64_t comm;
    int32_t rank, ranks;
    _Atomic int64_t begun; /* transfers */
} channel;

/* The functions, by the two sorts of handles. */
typedef int (*gather_int)(const void *, int, int, void *, int, int, int, int *);
typedef int (*gather_pointer)(const void *, int, void *, void *, int, void *, void *, void **);
typedef int (*spread_int)(void *, int, int, int, int, int *);
typedef int (*spread_pointer)(void *, int, void *, int, void *, void **);
typedef int (*barrier_int)(int, int *);
typedef int (*barrier_pointer)(void *, void **);
typedef int (*test_int)(int *, int *, void *);
typedef int (*test_pointer)(void **, int *, void *);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static hyb_mpi mpi;
static channel channels[MOST_CHANNELS];
static _Atomic int32_t n_channels;
static _Atomic int32_t stops, compares = 1;

int32_t hyb_channel_open(const hyb_mpi *functions, uint64_t comm, int32_t rank, int32_t ranks)
{
    if (!functions || !functions->all_gather || !functions->all_to_all || !functions->broadcast
        || !functions->barrier || !functions->test || ranks < 1 || rank < 0 || rank >= ranks) {
        hyb_fail(HYB_BAD_ARGUMENT, "a channel needs the functions of MPI, and a rank among its ranks");
        return -1;
    }
    pthread_mutex_lock(&lock);
    const int32_t number = atomic_load(&n_channels);
    if (number < MOST_CHANNELS) {
        mpi = *functions; /* the same for all: a process has one MPI */
        channels[number].comm = comm;
        channels[number].rank = rank;
        channels[number].ranks = ranks;
        atomic_store(&n_channels, number + 1);
    }
    pthread_mutex_unlock(&lock);
    if (number < MOST_CHANNELS)
        return number;
    hyb_fail(HYB_BAD_ARGUMENT, "there are %d channels already", MOST_CHANNELS);
    return -1;
}

int64_t hyb_channel_begun(int32_t number, int32_t more)
{
    if (number < 0 || number >= atomic_load(&n_channels))
        return -1;
    return atomic_fetch_add(&channels[number].begun, more) + more;
}

void hyb_channels_compare(int32_t compare) { atomic_store(&compares, compare); }

void hyb_channels_stop(int32_t stop) { atomic_store(&stops, stop); }

int32_t hyb_channel_ranks(int32_t number)
{
    return number < 0 || number >= atomic_load(&n_channels) ? 0 : channels[number].ranks;
}

static hyb_handle handle_of(uint64_t word)
{
    hyb_handle made = {NULL};
    if (mpi.pointers)
        made.pointer = (void *)(uintptr_t)word;
    else
        made.number = (int)(int32_t)word;
    return made;
}

static int begin(const channel *c, const hyb_transfer *transfer, void *const *data, hyb_handle *request)
{
    const hyb_handle comm = handle_of(c->comm), byte = handle_of(mpi.byte);
    const int count = (int)transfer->block;
    void *const gives = data[0];
    void *const takes = transfer->kind == HYB_TRANSFER_BARRIER ? NULL : data[1];
    switch (transfer->kind) {
    case HYB_TRANSFER_GATHER:
    case HYB_TRANSFER_EXCHANGE: {
        void (*const call)(void) =
            transfer->kind == HYB_TRANSFER_GATHER ? mpi.all_gather : mpi.all_to_all;
        return mpi.pointers
            ? ((gather_pointer)call)(gives, count, byte.pointer, takes, count, byte.pointer,
                                     comm.pointer, &request->pointer)
            : ((gather_int)call)(gives, count, byte.number, takes, count, byte.number, comm.number,
                                 &request->number);
    }
    case HYB_TRANSFER_SPREAD:
        memcpy(takes, gives, (size_t)transfer->block);
        return mpi.pointers
            ? ((spread_pointer)mpi.broadcast)(takes, count, byte.pointer, transfer->root,
                                              comm.pointer, &request->pointer)
            : ((spread_int)mpi.broadcast)(takes, count, byte.number, transfer->root, comm.number,
                                          &request->number);
    default:
        return mpi.pointers ? ((barrier_pointer)mpi.barrier)(comm.pointer, &request->pointer)
                            : ((barrier_int)mpi.barrier)(comm.number, &request->number);
    }
}

static int is_over(hyb_handle *request, int *over)
{
    uint64_t status[32]; /* more than any MPI_Status has */
    return mpi.pointers ? ((test_pointer)mpi.test)(&request->pointer, over, status)
                        : ((test_int)mpi.test)(&request->number, over, status);
}

/* Whether to wait on: the host may raise instead. */
static hyb_status ask_host(const hyb_run *run, const hyb_plan_step *step)
{
    const hyb_plan *plan = run->plan;
    return plan->host ? (hyb_status)plan->host(plan->host_context, step->host, NULL) : HYB_OK;
}

static void nap(int64_t ns) { nanosleep(&(struct timespec){0, ns}, NULL); }

static hyb_status wait_for(const hyb_run *run, const hyb_plan_step *step, hyb_handle *request,
                           int *code)
{
    int over = 0;
    int64_t begun = 0, next = 0, rest = NAP_NS;
    for (int64_t asked = 1;; asked++) {
        *code = is_over(request, &over);
        if (*code != 0 || over)
            return HYB_OK;
        const bool awaited = hyb_thread_is_awaited();
        if (asked % YIELDS == 0)
            sched_yield();
        if (asked < SPINS && awaited)
            continue;
        if (!awaited) {
            nap(rest);
            rest = rest < LONGEST_NAP_NS ? 2 * rest : LONGEST_NAP_NS;
        }
        const int64_t now = hyb_clock();
        if (!begun) {
            begun = now;
            next = now + LOOK_NS;
        }
        if (now < (awaited ? next : next + RARE_LOOK_NS))
            continue;
        TRY(ask_host(run, step));
        next = hyb_clock() + LOOK_NS;
        if (now - begun > AWAKE_NS)
            nap(NAP_NS);
    }
}

/* What has been agreed upon once stays so, but for eager calls. */
static hyb_status agree(const hyb_run *run, const hyb_plan_step *step, int32_t index)
{
    const hyb_transfer *transfer = step->transfer;
    if (transfer->root ? !atomic_load_explicit(&compares, memory_order_relaxed)
                       : atomic_load_explicit(transfer->agreed, memory_order_relaxed))
        return HYB_OK;
    const hyb_plan *plan = run->plan;
    const hyb_status status = plan->host
        ? (hyb_status)plan->host(plan->host_context, step->host, run->data + step->first_operand)
        : HYB_OK;
    if (status != HYB_OK)
        hyb_set_last_step(index);
    else
        atomic_store_explicit(transfer->agreed, 1, memory_order_relaxed);
    return status;
}

/* What MPI has said of a transfer. */
static hyb_status checked(const hyb_run *run, const hyb_plan_step *step, int code)
{
    if (code == 0)
        return HYB_OK;
    TRY(ask_host(run, step)); /* it may know of a rank that has failed */
    return hyb_fail(HYB_RAISED, "RankFailedError: MPI has failed with code %d", code);
}

/* Waits for the transfer in `place`, if one is under way there. */
static hyb_status end_transfer(hyb_run *run, int32_t place)
{
    hyb_under_way *under = &run->under_way[place];
    const hyb_plan_step *step = under->step;
    if (!step)
        return HYB_OK;
    under->step = NULL;
    run->n_under_way--;
    if (under->over)
        return HYB_OK;
    int code = 0;
    hyb_status status = wait_for(run, step, &under->request, &code);
    if (status == HYB_OK)
        status = checked(run, step, code);
    if (status != HYB_OK)
        hyb_set_last_step(under->index);
    return status;
}

void hyb_move_on(hyb_run *run)
{
    for (int32_t i = 0; i < HYB_MOST_UNDER_WAY; i++) {
        hyb_under_way *under = &run->under_way[i];
        int over = 0;
        if (under->step && !under->over && is_over(&under->request, &over) == 0)
            under->over = over != 0; /* what fails is said when it is waited for */
    }
}

hyb_status hyb_end_transfers(hyb_run *run, hyb_status status)
{
    for (int32_t i = 0; i < HYB_MOST_UNDER_WAY; i++) {
        if (status == HYB_OK) {
            status = end_transfer(run, i);
            continue;
        }
        /* MPI is not to write where others have their values by then.  The first error stays. */
        const int32_t step = hyb_last_step();
        char text[HYB_TEXT];
        memcpy(text, hyb_last_error(), sizeof text);
        end_transfer(run, i);
        hyb_fail(status, "%s", text);
        hyb_set_last_step(step);
    }
    return status;
}

hyb_status hyb_run_transfer(hyb_run *run, const hyb_plan_step *step, int32_t index)
{
    const hyb_transfer *transfer = step->transfer;
    if (transfer->kind == HYB_TRANSFER_AGREE)
        return agree(run, step, index);
    if (transfer->kind == HYB_TRANSFER_WAIT)
        return end_transfer(run, transfer->place);
    if (transfer->place >= 0)
        TRY(end_transfer(run, transfer->place));
    channel *c = &channels[transfer->channel];
    hyb_handle request = {NULL};
    hyb_status status = atomic_load(&stops) ? ask_host(run, step) : HYB_OK;
    if (status == HYB_OK) {
        atomic_fetch_add(&c->begun, 1);
        int code = begin(c, transfer, run->data + step->first_operand, &request);
        if (code == 0 && transfer->place >= 0) {
            run->under_way[transfer->place] = (hyb_under_way){step, request, index, false};
            run->n_under_way++;
            return HYB_OK;
        }
        if (code == 0)
            status = wait_for(run, step, &request, &code);
        if (status == HYB_OK)
            status = checked(run, step, code);
    }
    if (status != HYB_OK)
        hyb_set_last_step(index);
    return status;
}
