# Compiler flags as functions; each flag is asked of the compiler before it is used.
include(CheckCCompilerFlag)

function(gh_try_flag target flag)
  string(MAKE_C_IDENTIFIER "HAVE${flag}" name)
  check_c_compiler_flag("${flag}" ${name})
  if(${name})
    target_compile_options(${target} INTERFACE "${flag}")
  endif()
endfunction()

add_library(gh_flags INTERFACE)
foreach(flag -Wall -Wextra -Wshadow -Wwrite-strings -Wmissing-prototypes -Wformat=2
             -Wvla -Wstrict-prototypes -Wundef -Wimplicit-fallthrough -Wpointer-arith
             -fno-common -fvisibility=hidden
             # clang: long strings of a table are written in pieces, that is no forgotten comma
             -Wno-string-concatenation)
  gh_try_flag(gh_flags ${flag})
endforeach()
if(GH_WERROR)
  target_compile_options(gh_flags INTERFACE -Werror)
endif()
target_compile_definitions(gh_flags INTERFACE _GNU_SOURCE GH_VERSION="${PROJECT_VERSION}")
target_include_directories(gh_flags INTERFACE ${CMAKE_SOURCE_DIR}/service)

if(GH_SANITIZE)
  target_compile_options(gh_flags INTERFACE -fsanitize=${GH_SANITIZE} -fno-omit-frame-pointer
                                            -fno-sanitize-recover=all)
  target_link_options(gh_flags INTERFACE -fsanitize=${GH_SANITIZE})
endif()
if(GH_HARDEN)
  foreach(flag -fstack-protector-strong -fstack-clash-protection -fcf-protection=full
               -fzero-call-used-regs=used-gpr)
    gh_try_flag(gh_flags ${flag})
  endforeach()
  target_compile_definitions(gh_flags INTERFACE $<$<NOT:$<CONFIG:Debug>>:_FORTIFY_SOURCE=3>)
  target_link_options(gh_flags INTERFACE -pie -Wl,-z,relro,-z,now,-z,noexecstack)
endif()

# gh_module(NAME folder SOURCES a.c b.c DEPS gh_base PkgConfig::X): the static library gh_NAME.
function(gh_module name)
  cmake_parse_arguments(M "" "" "SOURCES;DEPS" ${ARGN})
  add_library(gh_${name} STATIC ${M_SOURCES})
  target_link_libraries(gh_${name} PUBLIC gh_flags ${M_DEPS})
endfunction()

# gh_test(NAME SOURCES test_x.c DEPS gh_x): the check program test_NAME, one ctest entry "unit.NAME".
function(gh_test name)
  cmake_parse_arguments(T "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(test_${name} ${T_SOURCES})
  target_link_libraries(test_${name} PRIVATE gh_flags ${T_DEPS} PkgConfig::CHECK)
  add_test(NAME unit.${name} COMMAND test_${name})
  set_tests_properties(unit.${name} PROPERTIES LABELS unit TIMEOUT 300)
endfunction()

# gh_fuzz(NAME SOURCES fuzz_x.c DEPS gh_x): a libFuzzer program fuzz_NAME with -DGH_FUZZ=ON, and in
# every build replay_NAME, which runs the corpus tests/fuzz/corpora/NAME through it ("fuzz.NAME").
function(gh_fuzz name)
  cmake_parse_arguments(F "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(replay_${name} ${F_SOURCES} ${CMAKE_SOURCE_DIR}/tests/fuzz/replay.c)
  target_link_libraries(replay_${name} PRIVATE gh_flags ${F_DEPS})
  add_test(NAME fuzz.${name} COMMAND replay_${name} ${CMAKE_SOURCE_DIR}/tests/fuzz/corpora/${name})
  set_tests_properties(fuzz.${name} PROPERTIES LABELS fuzz TIMEOUT 300)
  if(GH_FUZZ)
    add_executable(fuzz_${name} ${F_SOURCES})
    target_link_libraries(fuzz_${name} PRIVATE gh_flags ${F_DEPS})
    target_compile_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  endif()
endfunction()
