//! Parses the commands in code blocks of a shell, as far as the pages use the shell's syntax.

/// The words of a command, without quotes.
pub(crate) type Words = Vec<String>;

/// Returns the commands of a block. Lines are joined at a backslash, comments and redirections are
/// left out, and commands are divided at `|`, `;`, `&` and `&&`.
pub(crate) fn commands(block: &str) -> Vec<Words> {
    let joined = block.replace("\\\n", " ");
    joined.lines().flat_map(line).collect()
}

fn line(line: &str) -> Vec<Words> {
    let mut all = Vec::new();
    let mut words: Words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut redirected = false;
    let end = |word: &mut Option<String>, words: &mut Words, redirected: &mut bool| {
        if let Some(word) = word.take()
            && !std::mem::take(redirected)
        {
            words.push(word);
        }
    };
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, c) if c.is_whitespace() => end(&mut word, &mut words, &mut redirected),
            (None, '>') => {
                end(&mut word, &mut words, &mut redirected);
                redirected = true;
            }
            (None, '|' | ';' | '&') => {
                end(&mut word, &mut words, &mut redirected);
                all.push(std::mem::take(&mut words));
            }
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    end(&mut word, &mut words, &mut redirected);
    all.push(words);
    // `NAME=value` before a command sets the environment.
    let assigns = |word: &String| {
        word.split_once('=')
            .is_some_and(|(name, _)| name.chars().all(|c| c.is_ascii_uppercase() || c == '_'))
    };
    let commands = all
        .into_iter()
        .map(|words: Words| words.into_iter().skip_while(assigns).collect::<Words>());
    commands.filter(|words| !words.is_empty()).collect()
}

/// Returns the words of a command with other values of options, such as `--seeds 1`. An option that
/// the command lacks is appended if `accepted` permits this.
pub(crate) fn with_options(
    words: &Words,
    options: &[String],
    accepted: impl Fn(&Words) -> bool,
) -> Words {
    let mut changed = words.clone();
    for option in options.chunks(2) {
        match changed.iter().position(|word| *word == option[0]) {
            Some(at) if option.len() == 2 && at + 1 < changed.len() => {
                changed[at + 1].clone_from(&option[1])
            }
            _ => {
                let longer: Words = changed.iter().chain(option).cloned().collect();
                if accepted(&longer) {
                    changed = longer;
                }
            }
        }
    }
    changed
}

#[test]
fn shell_blocks_are_divided_into_commands() {
    let block = "fathom serve --listen x &      # in the background\nA=1 fathom compare 'a b' \\\n  --seeds 2 > out | grep \"c; d\"; fathom paths\n# nothing";
    let found: Vec<String> = commands(block).iter().map(|words| words.join("_")).collect();
    assert_eq!(
        found,
        ["fathom_serve_--listen_x", "fathom_compare_a b_--seeds_2", "grep_c; d", "fathom_paths"]
    );
    let words: Words = ["plan", "run", "--seeds", "9"].map(str::to_owned).into();
    let options: Vec<String> =
        ["--seeds", "1", "--scale", "0.1", "--colour", "red"].map(str::to_owned).into();
    let changed = with_options(&words, &options, |words| !words.contains(&"--colour".to_owned()));
    assert_eq!(changed, ["plan", "run", "--seeds", "1", "--scale", "0.1"]);
}
