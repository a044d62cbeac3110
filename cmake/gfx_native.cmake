# bw_gfx_native(FOLDER OUTPUT): the targets of the AMD GPUs that the kernel driver lists in FOLDER (of sysfs, one folder
# per node): gfx_target_version is major * 10000 + minor * 100 + stepping, 0 for processors; in a target's name minor and
# stepping are hexadecimal digits.
function(bw_gfx_native folder output)
  set(targets "")
  file(GLOB nodes ${folder}/*/properties)
  foreach(node ${nodes})
    file(READ ${node} text) # sysfs says 0 or 4096 bytes whatever the length, which file(STRINGS) does not take
    if(NOT text MATCHES "gfx_target_version ([1-9][0-9]*)")
      continue()
    endif()
    math(EXPR major "${CMAKE_MATCH_1} / 10000")
    math(EXPR minor "${CMAKE_MATCH_1} / 100 % 100")
    math(EXPR stepping "${CMAKE_MATCH_1} % 100")
    string(SUBSTRING "0123456789abcdef" ${minor} 1 minor)
    string(SUBSTRING "0123456789abcdef" ${stepping} 1 stepping)
    list(APPEND targets gfx${major}${minor}${stepping})
  endforeach()
  list(REMOVE_DUPLICATES targets)
  set(${output} "${targets}" PARENT_SCOPE)
endfunction()
