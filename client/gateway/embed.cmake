# tvq_embed(SOURCE FOLDER FILES...): writes SOURCE, which has the files' bytes and their paths in FOLDER
# as EmbeddedFiles() of static_files.h. The assembler reads the files, so that size costs no time.
function(tvq_embed source)
  set(assembly "")
  set(names "")
  set(table "")
  set(number 0)
  set(all_files "")
  list(REMOVE_AT ARGV 0)
  foreach(entry ${ARGV})
    string(REPLACE "|" ";" pair ${entry})
    list(GET pair 0 folder)
    list(GET pair 1 file)
    file(RELATIVE_PATH path ${folder} ${file})
    string(APPEND assembly
      "    \".globl tvq_file_${number}\\ntvq_file_${number}:\\n.incbin \\\"${file}\\\"\\n\"\n"
      "    \".globl tvq_file_${number}_end\\ntvq_file_${number}_end:\\n.byte 0\\n\"\n")
    string(APPEND names "extern const char tvq_file_${number}[];\nextern const char tvq_file_${number}_end[];\n")
    string(APPEND table
      "      {\"${path}\", {tvq_file_${number}, static_cast<size_t>(tvq_file_${number}_end - tvq_file_${number})}},\n")
    list(APPEND all_files ${file})
    math(EXPR number "${number} + 1")
  endforeach()
  file(CONFIGURE OUTPUT ${source} @ONLY CONTENT
"// Made by embed.cmake.
#include <cstddef>

#include \"client/gateway/static_files.h\"

asm(\".section .rodata\\n\"
@assembly@    \".previous\\n\");

extern \"C\" {
@names@}

namespace tvq::gateway {

std::span<const StaticFile> EmbeddedFiles() {
  static const StaticFile kFiles[] = {
@table@  };
  return kFiles;
}

}  // namespace tvq::gateway
")
  set_source_files_properties(${source} PROPERTIES OBJECT_DEPENDS "${all_files}")
endfunction()
