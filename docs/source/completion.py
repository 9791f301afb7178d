"""What bash and zsh complete after `spillway`, from the table of commands and options."""

FILES = ("FILE",)  # what options take that is the name of a file


def heads(mark, made):
    return [f"{mark} {line}" for line in made]


def names(command):
    """Its options, with the letters of those that have one."""
    for option in command["options"]:
        yield "--" + option["name"]
        if option["letter"]:
            yield "-" + option["letter"]


# ---- bash

def bash_values(commands):
    options = {option["name"]: option for command in commands for option in command["options"] if option["value"]}
    files = [f"--{name}" for name, option in options.items() if option["value"] in FILES]
    others = [f"--{name}" for name, option in options.items() if option["value"] not in FILES]
    return " | ".join(files), " | ".join(others)


def bash(commands, made):
    files, others = bash_values(commands)
    words = " ".join(command["name"] for command in commands)
    lines = [*heads("#", made), "",
             "_spillway()", "{",
             "\tlocal current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} words=",
             "\tCOMPREPLY=()",
             "\tcase $previous in",
             f"\t{files})", "\t\tcompopt -o filenames 2>/dev/null",
             "\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$current\")", "\t\treturn", "\t\t;;",
             f"\t{others})", "\t\treturn", "\t\t;;", "\tesac",
             "\tif [ \"$COMP_CWORD\" -eq 1 ]; then", f"\t\twords='{words} help --help -h --version -V'", "\telse",
             "\t\tcase ${COMP_WORDS[1]} in",
             f"\t\thelp) words='{words}' ;;"]
    lines += [f"\t\t{command['name']}) words='{' '.join(names(command))}' ;;" for command in commands]
    lines += ["\t\tesac", "\tfi", "\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")", "}",
              "complete -F _spillway spillway"]
    return "\n".join(lines) + "\n"


# ---- zsh

def zsh_text(text):
    """The first sentence, in single quotes, without what _arguments takes for its own."""
    first = text.split("\n")[0].split(". ")[0].rstrip(".:")
    for mark in "[]:":
        first = first.replace(mark, "\\" + mark)
    return first.replace("'", "'\\''")


def zsh_option(option):
    value = ""
    if option["value"]:
        value = f":{option['value']}:" + ("_files" if option["value"] in FILES else " ")
    for name in ("--" + option["name"], *(["-" + option["letter"]] if option["letter"] else [])):
        yield f"'{name}[{zsh_text(option['text'])}]{value}'"


def zsh(commands, made):
    lines = ["#compdef spillway", *heads("#", made), "",
             "local -a commands", "commands=("]
    lines += [f"\t'{command['name']}:{zsh_text(command['summary'])}'" for command in commands]
    lines += ["\t'help:explains a command and its options'", ")",
              "if (( CURRENT == 2 )); then", "\t_describe -t commands command commands",
              "\t_arguments '--help[Prints this help]' '--version[Prints the version]'", "\treturn", "fi",
              "case $words[2] in",
              "help)", "\t(( CURRENT == 3 )) && _describe -t commands command commands", "\t;;"]
    for command in commands:
        options = " \\\n\t\t".join(each for option in command["options"] for each in zsh_option(option))
        lines += [f"{command['name']})", "\tshift words", "\t(( CURRENT-- ))", f"\t_arguments {options}", "\t;;"]
    return "\n".join([*lines, "esac"]) + "\n"
