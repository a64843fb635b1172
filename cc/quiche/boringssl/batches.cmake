if(CMAKE_HOST_WIN32)
  return()
endif()
set(CMAKE_UNITY_BUILD ON)
set(CMAKE_UNITY_BUILD_BATCH_SIZE 24)
# BoringSSL takes warnings for errors, and compilers warn of other things in a batch. Nobody debugs it here.
add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-w> $<$<COMPILE_LANGUAGE:C,CXX>:-g0>)
# Files with names that another file has, too; and randomness, which a test replaces as one object (`cc/quiche/stock/tests/same_trace`).
file(GLOB alone RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}"
  crypto/bio/socket.cc crypto/cipher/e_rc2.cc crypto/des/des.cc crypto/dsa/*.cc crypto/ecdsa/ecdsa_asn1.cc crypto/err/err.cc
  crypto/evp/p_mlkem.cc crypto/hpke/hpke.cc crypto/md4/*.cc crypto/md5/*.cc crypto/pkcs8/*.cc crypto/rand/*.cc crypto/trust_token/*.cc crypto/x509/a_digest.cc
  crypto/x509/x509_vpm.cc crypto/x509/v3_pmaps.cc crypto/x509/x509_vfy.cc crypto/x509/x_x509.cc ssl/handshake_server.cc ssl/tls13_server.cc)
set_source_files_properties(${alone} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
# Most of it reads certificates, keys and handshakes, once per connection: -O1 compiles in two thirds of the time of CMake's -O3. What
# encrypts every packet is assembly; the curves and the FIPS module, which sign and agree on keys, keep -O2.
add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-O1>)
set_source_files_properties(crypto/fipsmodule/bcm.cc crypto/curve25519/curve25519.cc crypto/curve25519/curve25519_64_adx.cc
  crypto/mlkem/mlkem.cc PROPERTIES COMPILE_OPTIONS -O2)
