# What bw_gfx_native makes of the kernel driver's files: two cards of one kind, two of others, a processor; and of
# cards that the compiler does not know. The compiler is a script that knows as many as clang-19.
# usage: cmake -DSOURCE=... -DFOLDER=scratch -P gfx_native_test.cmake
include(${SOURCE}/cmake/gfx_native.cmake)
file(REMOVE_RECURSE ${FOLDER})
set(compiler ${FOLDER}/compiler)
file(WRITE ${compiler} "#!/bin/sh\ncase $* in *gfx950*|*gfx1153*|*gfx1036*|*gfx1250*) exit 1 ;; esac\n")
execute_process(COMMAND chmod +x ${compiler})

function(expect wanted wanted_count) # then versions of cards
  file(REMOVE_RECURSE ${FOLDER}/nodes)
  set(number 0)
  foreach(version ${ARGN})
    file(WRITE ${FOLDER}/nodes/${number}/properties
         "cpu_cores_count 0\nsimd_count 64\ngfx_target_version ${version}\nvendor_id 4098\n")
    math(EXPR number "${number} + 1")
  endforeach()
  set(targets nothing)
  bw_gfx_native(${FOLDER}/nodes ${compiler} targets count)
  if(NOT targets STREQUAL wanted OR NOT count EQUAL wanted_count)
    message(FATAL_ERROR "${ARGN}: \"${targets}\" (${count}) instead of \"${wanted}\" (${wanted_count})")
  endif()
endfunction()
expect("gfx1100;gfx90a;gfx942;gfx1032" 4 0 110000 110000 90010 90402 100302)
expect("" 0)
expect("" 0 0)
expect("" 1 90500)                               # an MI350: no generic target of clang-19 runs there
expect("gfx942" 2 90402 90500)
expect("gfx11-generic;gfx1100" 2 110503 110000)  # gfx1153
expect("gfx10-3-generic" 2 100306 120500)        # gfx1036, and a card that nobody knows
