# Turns one file into a C source: cmake -DIN=openapi.yaml -DOUT=openapi.c -P embed_document.cmake
file(READ "${IN}" hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)"
       "\\1\n" bytes "${bytes}")
file(WRITE "${OUT}" "/* Generated from api/openapi.yaml. */\n#include \"api/documents.h\"\n\n"
     "static const unsigned char bytes[] = {\n${bytes}0};\n\n"
     "const struct api_document api_openapi = {bytes, sizeof bytes - 1};\n")
