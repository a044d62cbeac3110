/* What the processor can do: CPUID leaves per Intel SDM volume 2A and AMD APM volume 3, XCR0 per SDM volume 1
 * section 13.3, AMX permission per Linux Documentation/arch/x86/xstate.rst. */
#include "bw_device.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bw_log.h"

static bw_cpu_features features;
static pthread_once_t once = PTHREAD_ONCE_INIT;

#if defined(__x86_64__)
#include <cpuid.h>

enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };

static uint64_t read_xcr0(void)
{
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

static bool bit(uint32_t word, int n)
{
    return word >> n & 1;
}

static void detect_vectors(void)
{
    uint32_t a, b, c, d, a7, b7, c7, d7, a71 = 0, b71, c71, d71;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !bit(c, 27) || !__get_cpuid_count(7, 0, &a7, &b7, &c7, &d7))
        return;
    if (a7 >= 1)
        __get_cpuid_count(7, 1, &a71, &b71, &c71, &d71);
    uint64_t xcr0 = read_xcr0();
    bool ymm = (xcr0 & 6) == 6, zmm = (xcr0 & 0xe6) == 0xe6, tiles = (xcr0 & 0x60000) == 0x60000;
    features.avx2 = ymm && bit(c, 28) && bit(c, 12) && bit(c, 29) && bit(b7, 5) && bit(b7, 8);
    features.avx512 = zmm && features.avx2 && bit(b7, 16) && bit(b7, 17) && bit(b7, 30) && bit(b7, 31);
    features.avx512_vnni = features.avx512 && bit(c7, 11);
    features.avx512_bf16 = features.avx512 && bit(a71, 5);
    features.avx_vnni = features.avx2 && bit(a71, 4);
    if (tiles && features.avx512 && bit(d7, 24) &&
        syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0) {
        features.amx_int8 = bit(d7, 25);
        features.amx_bf16 = bit(d7, 22);
    }
}

static void detect_name(void)
{
    uint32_t regs[12];
    if ((uint32_t)__get_cpuid_max(0x80000000u, NULL) < 0x80000004u)
        return;
    for (uint32_t i = 0; i < 3; i++)
        __get_cpuid(0x80000002u + i, &regs[i * 4], &regs[i * 4 + 1], &regs[i * 4 + 2], &regs[i * 4 + 3]);
    char text[49] = "";
    memcpy(text, regs, 48);
    size_t begin = strspn(text, " "), end = strlen(text);
    while (end > begin && text[end - 1] == ' ')
        text[--end] = 0;
    snprintf(features.name, sizeof features.name, "%s", text + begin);
}
#else
static void detect_vectors(void)
{
}
static void detect_name(void)
{
    snprintf(features.name, sizeof features.name, "CPU");
}
#endif

static void lower_to(const char *level)
{
    if (strcmp(level, "baseline") != 0 && strcmp(level, "avx2") != 0 && strcmp(level, "avx512") != 0 &&
        strcmp(level, "amx") != 0)
        bw_log_warn("BW_CPU_LEVEL=%s is not known (baseline, avx2, avx512 and amx are) and changes nothing", level);
    bool keep_avx2 = strcmp(level, "baseline") != 0;
    bool keep_avx512 = keep_avx2 && strcmp(level, "avx2") != 0;
    bool keep_amx = keep_avx512 && strcmp(level, "avx512") != 0;
    features.avx2 = features.avx2 && keep_avx2;
    features.avx_vnni = features.avx_vnni && keep_avx512;
    features.avx512 = features.avx512 && keep_avx512;
    features.avx512_vnni = features.avx512_vnni && keep_avx512;
    features.avx512_bf16 = features.avx512_bf16 && keep_avx512;
    features.amx_int8 = features.amx_int8 && keep_amx;
    features.amx_bf16 = features.amx_bf16 && keep_amx;
}

static int64_t positive(long v)
{
    return v > 0 ? v : 0;
}

static void detect(void)
{
    snprintf(features.name, sizeof features.name, "unknown CPU");
    detect_vectors();
    detect_name();
    features.l1d_bytes = positive(sysconf(_SC_LEVEL1_DCACHE_SIZE));
    features.l2_bytes = positive(sysconf(_SC_LEVEL2_CACHE_SIZE));
    features.l3_bytes = positive(sysconf(_SC_LEVEL3_CACHE_SIZE));
    const char *level = getenv("BW_CPU_LEVEL");
    if (level && *level)
        lower_to(level);
}

const bw_cpu_features *bw_cpu_get_features(void)
{
    pthread_once(&once, detect);
    return &features;
}
