/* From a launch's void ** to a kernel's own parameters. Included by the files that the build makes for each family. */
#ifndef BW_SIM_CALL_H
#define BW_SIM_CALL_H

#include "simgpu.h"

template <int... I> struct sim_indices {
};
template <int N, int... I> struct sim_count : sim_count<N - 1, N - 1, I...> {
};
template <int... I> struct sim_count<0, I...> {
    typedef sim_indices<I...> type;
};

template <auto F> struct sim_caller;
template <typename... A, void (*F)(A...)> struct sim_caller<F> {
    static constexpr int n_args = sizeof...(A);
    static constexpr size_t arg_bytes[sizeof...(A) + 1] = {sizeof(A)..., 0};
    static void call(void **args)
    {
        with(args, typename sim_count<sizeof...(A)>::type());
    }
    template <int... I> static void with(void **args, sim_indices<I...>)
    {
        (void)args;
        F(*(const A *)args[I]...);
    }
};

#define SIM_KERNEL(name, max_threads)                                                                                  \
    {#name, max_threads, sim_caller<&name>::call, sim_caller<&name>::arg_bytes, sim_caller<&name>::n_args},

#endif
