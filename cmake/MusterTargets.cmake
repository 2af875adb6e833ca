# The build rules that every target shares, so that a folder's CMakeLists.txt only names its files.

add_library(muster_build_flags INTERFACE)
target_compile_options(muster_build_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
                                                    -Wno-sign-conversion -Werror -fno-omit-frame-pointer)
# Contracting a*b+c into one rounding would make results depend on the compiler's mood.
target_compile_options(muster_build_flags INTERFACE -ffp-contract=off)
target_include_directories(muster_build_flags INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}/generated)
if(MUSTER_SANITIZE)
  target_compile_options(muster_build_flags INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=all)
  target_link_options(muster_build_flags INTERFACE -fsanitize=address,undefined)
endif()

if(MUSTER_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "MUSTER_FUZZ needs clang: libFuzzer is part of it")
  endif()
  # clang's own warnings are clang-tidy's business.
  target_compile_options(muster_build_flags INTERFACE -fsanitize=fuzzer-no-link,address,undefined
                                                      -fno-sanitize-recover=all -Wno-everything)
  target_link_options(muster_build_flags INTERFACE -fsanitize=address,undefined)
endif()

# muster_library(NAME SOURCES file... DEPS target...): a static library.
function(muster_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC muster_build_flags ${ARG_DEPS})
endfunction()

# Arithmetic loops: full optimization (they still round as written: no -ffast-math, no contraction). Setting errno would
# keep square roots out of vector code; their values are the same.
function(muster_kernels)
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS "$<$<NOT:$<CONFIG:Debug>>:-O3>;-fno-math-errno")
endfunction()

# muster_executable(NAME SOURCES file... DEPS target...)
function(muster_executable name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE muster_build_flags ${ARG_DEPS})
endfunction()

# muster_test(NAME LABEL label SOURCES file... DEPS target... [TIMEOUT seconds] [SERIAL])
# One GoogleTest executable with the main() of tests/support, or one of its own that ends likewise: with 77 if tests were
# skipped and none failed (tests/support/test_outcome.h). That is reported as skipped, never as passed.
function(muster_test name)
  cmake_parse_arguments(ARG "SERIAL" "LABEL;TIMEOUT" "SOURCES;DEPS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE muster_build_flags ${ARG_DEPS} muster_test_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT} RUN_SERIAL ${ARG_SERIAL}
                       SKIP_RETURN_CODE 77 ENVIRONMENT "MUSTER_BIN_DIR=${CMAKE_BINARY_DIR}/bin")
endfunction()

# muster_mpi_test(NAME RANKS n... SOURCES file... DEPS target... [TIMEOUT seconds])
# One executable under mpirun, once for each rank count, with the main() of tests/mpi/mpi_test_main.cc.
function(muster_mpi_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "RANKS;SOURCES;DEPS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE muster_build_flags ${ARG_DEPS} muster_test_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  foreach(ranks IN LISTS ARG_RANKS)
    add_test(NAME ${name}_np${ranks}
             COMMAND ${MUSTER_MPIRUN} --allow-run-as-root --oversubscribe --bind-to none -np ${ranks} $<TARGET_FILE:${name}>)
    set_tests_properties(${name}_np${ranks} PROPERTIES LABELS mpi TIMEOUT ${ARG_TIMEOUT} RUN_SERIAL TRUE
                         SKIP_RETURN_CODE 77
                         ENVIRONMENT "MUSTER_BIN_DIR=${CMAKE_BINARY_DIR}/bin;OMP_NUM_THREADS=1")
  endforeach()
endfunction()

# muster_fuzz_target(NAME DEPS target...): NAME_fuzz.cc as a libFuzzer program (MUSTER_FUZZ), or else as a unit test that
# runs it over corpus/NAME alone.
function(muster_fuzz_target name)
  cmake_parse_arguments(ARG "" "" "DEPS" ${ARGN})
  if(MUSTER_FUZZ)
    add_executable(${name}_fuzz ${name}_fuzz.cc)
    target_link_options(${name}_fuzz PRIVATE -fsanitize=fuzzer)
    target_link_libraries(${name}_fuzz PRIVATE muster_build_flags ${ARG_DEPS})
    set_target_properties(${name}_fuzz PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
    add_dependencies(muster_fuzz ${name}_fuzz)
  else()
    add_executable(${name}_corpus ${name}_fuzz.cc run_corpus.cc)
    target_link_libraries(${name}_corpus PRIVATE muster_build_flags ${ARG_DEPS})
    set_target_properties(${name}_corpus PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    add_test(NAME ${name}_corpus COMMAND ${name}_corpus ${CMAKE_CURRENT_SOURCE_DIR}/corpus/${name})
    set_tests_properties(${name}_corpus PROPERTIES LABELS unit TIMEOUT 60)
  endif()
endfunction()
