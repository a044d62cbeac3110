# Device code: every .hip file for every target, embedded into the programs.
#
# BW_GFX: AMD targets: none, default (gfx90a gfx942 gfx1100 gfx1201), all, or a list such as "gfx1030;gfx1100". Needs
# clang-19 and lld-19, nothing of ROCm's.
# BW_SM: NVIDIA targets: none, auto (80 and 90 where nvcc is found), or a list such as "90".

set(BW_GFX "none" CACHE STRING "AMD targets: none, default, all, or a list of gfx names")
set(BW_SM "auto" CACHE STRING "NVIDIA targets: none, auto, or a list such as 80;90")

set(BW_GFX_DEFAULT gfx90a gfx942 gfx1100 gfx1201)
set(BW_GFX_ALL gfx900 gfx906 gfx908 gfx90a gfx942 gfx1010 gfx1030 gfx1100 gfx1101 gfx1102 gfx1103 gfx1150 gfx1151
    gfx1200 gfx1201)
set(BW_GFX_TARGETS ${BW_GFX})
if(BW_GFX STREQUAL "none")
  set(BW_GFX_TARGETS "")
elseif(BW_GFX STREQUAL "default")
  set(BW_GFX_TARGETS ${BW_GFX_DEFAULT})
elseif(BW_GFX STREQUAL "all")
  set(BW_GFX_TARGETS ${BW_GFX_ALL})
endif()
if(BW_GFX_TARGETS)
  find_program(BW_CLANG_HIP NAMES clang-19 REQUIRED)
endif()

set(BW_SM_TARGETS ${BW_SM})
if(BW_SM STREQUAL "none")
  set(BW_SM_TARGETS "")
else()
  find_program(BW_NVCC NAMES nvcc HINTS /usr/local/cuda/bin)
  if(BW_SM STREQUAL "auto")
    set(BW_SM_TARGETS "")
    if(BW_NVCC)
      set(BW_SM_TARGETS 80 90)
    endif()
  endif()
endif()

set(BW_HIP_FLAGS -x hip --cuda-device-only --no-gpu-bundle-output -fuse-cuid=none -nogpuinc -nogpulib -nostdinc
    -nostdinc++ -std=c++17 -O3 -ffp-contract=fast-honor-pragmas -Wall -Wextra -Werror -Rpass-analysis=kernel-resource-usage)
set(BW_NVCC_FLAGS -x cu -cubin -std=c++17 -O3 -Xptxas -v)

# bw_kernels_library(FILES...): the library of all code objects. FILES: .hip sources, absolute.
function(bw_kernels_library)
  set(out ${CMAKE_BINARY_DIR}/kernels)
  file(MAKE_DIRECTORY ${out})
  set(includes -I${CMAKE_SOURCE_DIR}/src/device/kernel -I${CMAKE_SOURCE_DIR}/src/ops)
  file(GLOB prelude ${CMAKE_SOURCE_DIR}/src/device/kernel/*.h ${CMAKE_SOURCE_DIR}/src/ops/bw_loop.h)
  set(objects "")
  set(asm "")
  set(declarations "")
  set(rows "")
  foreach(file ${ARGN})
    get_filename_component(family ${file} NAME_WE)
    get_filename_component(folder ${file} DIRECTORY)
    file(GLOB headers ${folder}/bw_*.h)
    # *_exact.hip: products are rounded before they are added, for results that must equal the CPU's bit for bit
    set(gfx_flags "")
    set(nvcc_flags "")
    if(family MATCHES "_exact$")
      set(gfx_flags -ffp-contract=off)
      set(nvcc_flags -fmad=false)
    endif()
    foreach(target ${BW_GFX_TARGETS} ${BW_SM_TARGETS})
      if(target MATCHES "^gfx")
        set(name ${target})
        set(object ${out}/${family}.${name}.hsaco)
        set(command ${BW_CLANG_HIP} ${BW_HIP_FLAGS} ${gfx_flags} --offload-arch=${target} ${includes} ${file} -o ${object})
      else()
        set(name sm_${target})
        set(object ${out}/${family}.${name}.cubin)
        set(command ${BW_NVCC} ${BW_NVCC_FLAGS} ${nvcc_flags} -arch=${name} ${includes} ${file} -o ${object})
      endif()
      # what the compiler says of registers and spills is kept beside the object, and shown when it fails
      add_custom_command(OUTPUT ${object} DEPENDS ${file} ${prelude} ${headers} VERBATIM
        COMMAND sh -c "\"$@\" 2>${object}.usage || { cat ${object}.usage >&2; exit 1; }" sh ${command}
        COMMENT "Kernels of ${family} for ${name}")
      list(APPEND objects ${object})
      string(MAKE_C_IDENTIFIER "${family}_${name}" id)
      string(APPEND asm "    \".balign 16\\nbw_object_${id}: .incbin \\\"${object}\\\"\\nbw_object_${id}_end: .byte 0\\n\"\n")
      string(APPEND declarations "extern const unsigned char bw_object_${id}[], bw_object_${id}_end[];\n")
      string(APPEND rows "    {\"${family}\", \"${name}\", bw_object_${id}, bw_object_${id}_end},\n")
    endforeach()
  endforeach()
  set(source "/* Made by cmake/kernels.cmake: the code objects in this program. */\n#include \"gpu_driver.h\"\n\n")
  if(objects)
    string(APPEND source "__asm__(\".pushsection .rodata\\n\"\n${asm}    \".popsection\\n\");\n${declarations}\n")
    string(APPEND source "const bw_code_object bw_code_objects[] = {\n${rows}};\n")
    string(APPEND source "const int bw_n_code_objects = (int)(sizeof bw_code_objects / sizeof *bw_code_objects);\n")
  else()
    string(APPEND source "const bw_code_object bw_code_objects[1] = {{0}};\nconst int bw_n_code_objects = 0;\n")
  endif()
  file(CONFIGURE OUTPUT ${out}/code_objects.c CONTENT "${source}" @ONLY)
  if(objects)
    # registers, shared memory, spills and occupancy of every kernel; a spill fails the build
    add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/kernels.tsv DEPENDS ${objects} ${CMAKE_SOURCE_DIR}/tools/kernel_table.sh
      COMMAND ${CMAKE_SOURCE_DIR}/tools/kernel_table.sh ${out} ${CMAKE_BINARY_DIR}/kernels.tsv VERBATIM)
    add_custom_target(bw_kernel_table ALL DEPENDS ${CMAKE_BINARY_DIR}/kernels.tsv)
  endif()
  add_library(bw_kernels STATIC ${out}/code_objects.c)
  set_source_files_properties(${out}/code_objects.c PROPERTIES OBJECT_DEPENDS "${objects}")
  target_include_directories(bw_kernels PRIVATE ${CMAKE_SOURCE_DIR}/src/device ${CMAKE_SOURCE_DIR}/src/tensor
                             ${CMAKE_SOURCE_DIR}/src/base ${CMAKE_SOURCE_DIR}/include)
endfunction()
