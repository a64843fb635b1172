# BoringSSL is 450 C++ files that include the same headers, which is most of what compiling it costs: 230 of 830 CPU seconds of a first build.
# In batches they take a fifth of that. `.cargo/config.toml` names this file in CMAKE_TOOLCHAIN_FILE; without that variable BoringSSL is
# built file by file, with the same result. CMake reads `batches.cmake` when the project begins.
set(CMAKE_PROJECT_INCLUDE "${CMAKE_CURRENT_LIST_DIR}/batches.cmake")
