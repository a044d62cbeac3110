# Compiler settings and the one way to declare a module.

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_C_FLAGS_RELEASE "-O3 -g1")

add_compile_options(-Wall -Wextra -Wconversion -Wshadow -Werror -fno-strict-aliasing -ffp-contract=off
                    -fvisibility=hidden)
add_compile_definitions(_GNU_SOURCE)
if(BW_SANITIZE)
  add_compile_options(-fsanitize=${BW_SANITIZE} -fno-omit-frame-pointer -O1 -g)
  add_link_options(-fsanitize=${BW_SANITIZE})
  if(BW_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
endif()
if(BW_FUZZ) # clang: every module counts its branches for libFuzzer
  add_compile_options(-fsanitize=fuzzer-no-link)
  add_link_options(-fsanitize=fuzzer-no-link)
endif()
if(BW_COVERAGE)
  # without optimisation gcc 13 takes intrinsics as macros, whose masks change sign
  add_compile_options(--coverage -O0 -Wno-sign-conversion -Wno-error)
  add_link_options(--coverage -Wl,-u,__gcov_dump) # tests' child processes call it (tests/bw_test_child.h)
endif()

find_package(Threads REQUIRED)

# bw_module(NAME [DEPENDS lower modules...] [LIBRARIES ...] SOURCES ...)
# A module is one static library with its own folder as include path. It sees the headers of the modules it names and
# of what those name, and no others: an include of a higher module does not compile.
function(bw_module name)
  cmake_parse_arguments(M "" "" "SOURCES;DEPENDS;LIBRARIES" ${ARGN})
  add_library(bw_${name} STATIC ${M_SOURCES})
  target_include_directories(bw_${name} PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
  foreach(dep ${M_DEPENDS})
    target_link_libraries(bw_${name} PUBLIC bw_${dep})
  endforeach()
  target_link_libraries(bw_${name} PUBLIC ${M_LIBRARIES})
  set_property(GLOBAL APPEND PROPERTY BW_MODULES bw_${name})
endfunction()

# bw_test(NAME SOURCES... [LIBRARIES ...]): a cmocka program, run by ctest under its name.
function(bw_test name)
  cmake_parse_arguments(T "" "" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${name} ${T_SOURCES})
  target_link_libraries(${name} PRIVATE ${T_LIBRARIES} cmocka)
  target_compile_definitions(${name} PRIVATE BW_TEST_DATA="${CMAKE_SOURCE_DIR}/tests/data")
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT 600)
endfunction()
