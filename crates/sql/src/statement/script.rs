//! Splits a script into statements and reads each on its own, so that a mistake in one
//! does not hide those in the others.
//!
//! Bounds (size, tokens, nesting, operator chains) are checked on the tokens before any
//! recursive code sees them.

use datafusion_expr::sqlparser::{
    ast::Ident,
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::{Location, Span, Token, TokenWithSpan, Tokenizer, Whitespace},
};

use super::{
    CreateFunction, CreateView, Drop, Insert, Statement, StatementKind, create_table,
    dialect::{FlinkDialect, is_word, parse_name, peek_word, take_word, take_words},
};
use crate::diagnostic::{Diagnostic, cover};

/// Largest script, in bytes.
const MAX_SCRIPT_BYTES: usize = 1 << 20;
/// Most tokens of a script.
const MAX_TOKENS: usize = 300_000;
/// Deepest nesting of parentheses and CASE.
const MAX_NESTING: usize = 48;
/// Most parentheses in a row. The parser tries each both as a subquery and as a join.
const MAX_PARENTHESES_IN_A_ROW: usize = 8;
/// Most operators in one chain (`a + b + …`), each of which nests the tree by one.
const MAX_CHAIN: usize = 400;

/// What some editors put before the text of a file.
pub(crate) const BYTE_ORDER_MARK: char = '\u{feff}';

/// The statements that could be read, and what was wrong with the others.
#[derive(Debug, Default)]
pub(crate) struct Script {
    pub(crate) statements: Vec<Statement>,
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// Where each GROUP BY starts, which the parser does not keep.
    pub(crate) group_by: Vec<Location>,
}

/// Reads a script.
pub(crate) fn parse_script(text: &str) -> Script {
    let mut script = Script::default();
    if text.len() > MAX_SCRIPT_BYTES {
        script.diagnostics.push(Diagnostic::error(
            "script-too-large",
            Span::empty(),
            format!(
                "the script has {} bytes, more than the {MAX_SCRIPT_BYTES} allowed",
                text.len()
            ),
        ));
        return script;
    }
    let dialect = FlinkDialect;
    let tokens = match Tokenizer::new(&dialect, text).tokenize_with_location() {
        Ok(tokens) => split_shifts(tokens),
        Err(error) => {
            let span = Span::new(error.location, error.location);
            script
                .diagnostics
                .push(Diagnostic::error("syntax", span, error.message));
            return script;
        }
    };
    for token in &tokens {
        if let Token::Whitespace(Whitespace::MultiLineComment(text)) = &token.token
            && text.starts_with('+')
        {
            let hint = Diagnostic::unsupported(token.span, "a query hint");
            script.diagnostics.push(hint);
        }
    }
    if let Err(diagnostic) = check_bounds(&tokens) {
        script.diagnostics.push(*diagnostic);
        return script;
    }
    script.group_by = group_by_positions(&tokens);
    let mut set: Option<Span> = None;
    for tokens in split_statements(tokens) {
        parse_one(&dialect, tokens, &mut set, &mut script);
    }
    if let Some(span) = set {
        script.diagnostics.push(Diagnostic::error(
            "syntax",
            span,
            "the statement set is not closed: END; is missing",
        ));
    }
    script
}

fn group_by_positions(tokens: &[TokenWithSpan]) -> Vec<Location> {
    let words: Vec<&TokenWithSpan> = tokens
        .iter()
        .filter(|token| !matches!(token.token, Token::Whitespace(_)))
        .collect();
    words
        .windows(2)
        .filter(|pair| is_word(&pair[0].token, "GROUP") && is_word(&pair[1].token, "BY"))
        .map(|pair| pair[0].span.start)
        .collect()
}

/// Writes `>>` as two tokens, so that nested type arguments can be read.
pub(crate) fn split_shifts(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut split = Vec::with_capacity(tokens.len());
    for token in tokens {
        if token.token == Token::ShiftRight {
            let middle = Location::new(token.span.start.line, token.span.start.column + 1);
            split.push(TokenWithSpan::new(
                Token::Gt,
                Span::new(token.span.start, middle),
            ));
            split.push(TokenWithSpan::new(
                Token::Gt,
                Span::new(middle, token.span.end),
            ));
        } else {
            split.push(token);
        }
    }
    split
}

fn check_bounds(tokens: &[TokenWithSpan]) -> Result<(), Box<Diagnostic>> {
    let too_complex = |span: Span, what: String| {
        Err(Box::new(
            Diagnostic::error("too-complex", span, what)
                .with_hint("split the expression or query with a view"),
        ))
    };
    if tokens.len() > MAX_TOKENS {
        let span = tokens[MAX_TOKENS].span;
        return too_complex(
            span,
            format!("the script has more than {MAX_TOKENS} tokens"),
        );
    }
    // Chain length per open parenthesis.
    let mut chains = vec![0usize];
    let mut row = 0;
    let mut in_from = FromParentheses::default();
    for token in tokens {
        if !in_from.step(&token.token) {
            return too_complex(
                token.span,
                "parentheses in FROM are nested too deeply".into(),
            );
        }
        match &token.token {
            Token::LParen | Token::LBracket => {
                row += 1;
                chains.push(0);
                if row > MAX_PARENTHESES_IN_A_ROW || chains.len() > MAX_NESTING {
                    return too_complex(token.span, "parentheses are nested too deeply".into());
                }
                continue;
            }
            Token::RParen | Token::RBracket => {
                if chains.len() > 1 {
                    chains.pop();
                }
            }
            Token::Comma => *last(&mut chains) = 0,
            Token::SemiColon => chains = vec![0],
            Token::Whitespace(_) => continue,
            Token::Word(word) if word.quote_style.is_none() => match word.keyword {
                Keyword::AND
                | Keyword::OR
                | Keyword::NOT
                | Keyword::IS
                | Keyword::WHEN
                | Keyword::CASE
                | Keyword::UNION => *last(&mut chains) += 1,
                Keyword::SELECT | Keyword::FROM | Keyword::WHERE => *last(&mut chains) = 0,
                _ => {}
            },
            Token::Word(_) | Token::Number(_, _) | Token::SingleQuotedString(_) => {}
            _ => *last(&mut chains) += 1,
        }
        row = 0;
        if *last(&mut chains) > MAX_CHAIN {
            return too_complex(
                token.span,
                format!("more than {MAX_CHAIN} operators in one expression"),
            );
        }
    }
    Ok(())
}

/// Doubled parentheses in FROM, `((…`, which the parser tries in two ways each.
#[derive(Default)]
struct FromParentheses {
    /// Of every open parenthesis: whether it belongs to FROM, and whether it is a second one.
    open: Vec<(bool, bool)>,
    after_from: bool,
    after_parenthesis: bool,
}

impl FromParentheses {
    /// False if there are too many at once.
    fn step(&mut self, token: &Token) -> bool {
        match token {
            Token::Whitespace(_) => return true,
            Token::LParen => {
                let inner =
                    self.after_parenthesis && self.open.last().is_some_and(|(from, _)| *from);
                self.open.push((self.after_from || inner, inner));
                self.after_from = false;
                self.after_parenthesis = true;
                return self.open.iter().filter(|(_, second)| *second).count() <= 6;
            }
            Token::RParen => {
                self.open.pop();
            }
            Token::SemiColon => self.open.clear(),
            _ => {}
        }
        self.after_parenthesis = false;
        self.after_from = matches!(token, Token::Comma)
            || matches!(token, Token::Word(word) if matches!(word.keyword, Keyword::FROM | Keyword::JOIN));
        true
    }
}

fn last(chains: &mut [usize]) -> &mut usize {
    let end = chains.len() - 1;
    &mut chains[end]
}

/// The tokens of each statement, without `;`, empty ones left out.
fn split_statements(tokens: Vec<TokenWithSpan>) -> Vec<Vec<TokenWithSpan>> {
    let mut statements = vec![];
    let mut current: Vec<TokenWithSpan> = vec![];
    for token in tokens {
        match token.token {
            Token::Whitespace(_) | Token::EOF => {}
            // Of a file that was put behind other text, such as the settings of a command line.
            Token::Char(BYTE_ORDER_MARK) => {}
            Token::SemiColon => statements.push(std::mem::take(&mut current)),
            _ => current.push(token),
        }
    }
    statements.push(current);
    statements.retain(|statement| !statement.is_empty());
    statements
}

fn parse_one(
    dialect: &FlinkDialect,
    tokens: Vec<TokenWithSpan>,
    set: &mut Option<Span>,
    script: &mut Script,
) {
    let end = tokens[tokens.len() - 1].span.end;
    let span = cover(tokens[0].span, Span::new(end, end));
    let mut tokens = tokens;
    tokens.push(TokenWithSpan::new(Token::EOF, Span::new(end, end)));
    let mut parser = Parser::new(dialect)
        .with_recursion_limit(120)
        .with_tokens_with_locations(tokens);
    if take_words(&mut parser, &["EXECUTE", "STATEMENT", "SET", "BEGIN"])
        || take_words(&mut parser, &["BEGIN", "STATEMENT", "SET"])
    {
        if let Some(open) = set.replace(span) {
            let message = "statement sets cannot be nested";
            script
                .diagnostics
                .push(Diagnostic::error("syntax", span, message));
            *set = Some(open);
        }
        if parser.peek_token_ref().token == Token::EOF {
            return;
        }
    } else if peek_word(&parser, "END") {
        if set.take().is_none() {
            let message = "END without EXECUTE STATEMENT SET BEGIN";
            script
                .diagnostics
                .push(Diagnostic::error("syntax", span, message));
        }
        return;
    }
    let parsed = parse_statement(&mut parser).and_then(|kind| {
        let next = parser.peek_token();
        if next.token == Token::EOF {
            Ok(kind)
        } else {
            parser.expected("end of statement or ;", next)
        }
    });
    match parsed {
        Ok(kind) => {
            if set.is_some() && !matches!(kind, StatementKind::Insert(_)) {
                script.diagnostics.push(Diagnostic::error(
                    "syntax",
                    span,
                    "a statement set holds INSERT statements only",
                ));
            }
            script.statements.push(Statement { kind, span });
        }
        Err(error) => script.diagnostics.push(from_parser_error(&error, span)),
    }
}

/// A diagnostic from the parser's text, which ends in ` at Line: l, Column: c`.
fn from_parser_error(error: &ParserError, statement: Span) -> Diagnostic {
    let (code, text) = match error {
        ParserError::TokenizerError(text) | ParserError::ParserError(text) => {
            ("syntax", text.as_str())
        }
        ParserError::RecursionLimitExceeded => (
            "too-complex",
            "the statement is nested too deeply; split it with a view",
        ),
    };
    let (message, location) = split_location(text);
    let span = match location {
        Some(location) => Span::new(location, location),
        None => statement,
    };
    let code = if message.contains("not supported yet") {
        "unsupported"
    } else {
        code
    };
    let message = message.replace("found: EOF", "found: end of statement");
    Diagnostic::error(code, span, message)
}

fn split_location(text: &str) -> (&str, Option<Location>) {
    let Some(at) = text.rfind(" at Line: ") else {
        return (text, None);
    };
    let mut numbers = text[at..]
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|digits| digits.parse::<u64>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(line), Some(column)) if line > 0 => (&text[..at], Some(Location::new(line, column))),
        _ => (&text[..at], None),
    }
}

fn parse_statement(parser: &mut Parser) -> Result<StatementKind, ParserError> {
    let token = parser.peek_token();
    let Token::Word(word) = &token.token else {
        if token.token == Token::LParen {
            return Ok(StatementKind::Query(parser.parse_query()?));
        }
        return parser.expected("a statement", token);
    };
    match word.value.to_ascii_uppercase().as_str() {
        "CREATE" => parse_create(parser),
        "DROP" => parse_drop(parser),
        "INSERT" => Ok(StatementKind::Insert(Box::new(parse_insert(parser)?))),
        "SELECT" | "WITH" | "VALUES" => Ok(StatementKind::Query(parser.parse_query()?)),
        "SET" => parse_set(parser),
        "RESET" => {
            parser.advance_token();
            let key = match parser.peek_token_ref().token {
                Token::EOF => None,
                _ => Some(parse_key(parser)?),
            };
            Ok(StatementKind::Reset { key })
        }
        "EXPLAIN" => {
            parser.advance_token();
            take_words(parser, &["PLAN", "FOR"]);
            // Details that the plan always has.
            while [
                "ESTIMATED_COST",
                "CHANGELOG_MODE",
                "JSON_EXECUTION_PLAN",
                "PLAN_ADVICE",
            ]
            .iter()
            .any(|word| take_word(parser, word))
            {
                let _ = parser.consume_token(&Token::Comma);
            }
            match parse_statement(parser)? {
                kind @ (StatementKind::Query(_) | StatementKind::Insert(_)) => {
                    Ok(StatementKind::Explain(Box::new(kind)))
                }
                _ => parser.expected("a query or INSERT after EXPLAIN", token),
            }
        }
        other => {
            let known = [
                "ALTER", "ANALYZE", "CALL", "COMPILE", "DELETE", "DESC", "DESCRIBE", "EXECUTE",
                "LOAD", "SHOW", "STOP", "TRUNCATE", "UNLOAD", "UPDATE", "USE", "ADD", "REMOVE",
            ];
            if known.contains(&other) {
                return Err(unsupported(&token, other));
            }
            parser.expected(
                "a statement (CREATE, INSERT, SELECT, SET, EXPLAIN, …)",
                token,
            )
        }
    }
}

fn unsupported(token: &TokenWithSpan, what: &str) -> ParserError {
    ParserError::ParserError(format!("{what} is not supported yet{}", token.span.start))
}

fn parse_create(parser: &mut Parser) -> Result<StatementKind, ParserError> {
    parser.advance_token();
    let or = parser.peek_token();
    if take_words(parser, &["OR", "REPLACE"]) || take_words(parser, &["OR", "ALTER"]) {
        return Err(unsupported(&or, "CREATE OR REPLACE"));
    }
    take_word(parser, "TEMPORARY");
    take_word(parser, "SYSTEM");
    let what = parser.next_token();
    if is_word(&what.token, "TABLE") {
        let table = create_table::parse_create_table(parser)?;
        return Ok(StatementKind::CreateTable(Box::new(table)));
    }
    if is_word(&what.token, "VIEW") {
        let if_not_exists = take_words(parser, &["IF", "NOT", "EXISTS"]);
        let name = parse_table_name(parser)?;
        let columns = if parser.peek_token_ref().token == Token::LParen {
            parse_name_list(parser)?
        } else {
            vec![]
        };
        create_table::take_comment(parser)?;
        parser.expect_keyword_is(Keyword::AS)?;
        let query = parser.parse_query()?;
        return Ok(StatementKind::CreateView(Box::new(CreateView {
            name,
            if_not_exists,
            columns,
            query,
        })));
    }
    if is_word(&what.token, "FUNCTION") {
        take_words(parser, &["IF", "NOT", "EXISTS"]);
        let name = parse_table_name(parser)?;
        parser.expect_keyword_is(Keyword::AS)?;
        let class = parser.parse_literal_string()?;
        if take_word(parser, "LANGUAGE") {
            parser.advance_token();
        }
        return Ok(StatementKind::CreateFunction(CreateFunction {
            name,
            class,
        }));
    }
    for other in ["CATALOG", "DATABASE", "MODEL", "MATERIALIZED", "CONNECTION"] {
        if is_word(&what.token, other) {
            return Err(unsupported(&what, &format!("CREATE {other}")));
        }
    }
    parser.expected("TABLE, VIEW or FUNCTION after CREATE", what)
}

fn parse_drop(parser: &mut Parser) -> Result<StatementKind, ParserError> {
    parser.advance_token();
    take_word(parser, "TEMPORARY");
    let token = parser.next_token();
    let Some(what) = ["TABLE", "VIEW", "FUNCTION"]
        .into_iter()
        .find(|what| is_word(&token.token, what))
    else {
        return parser.expected("TABLE or VIEW after DROP", token);
    };
    let if_exists = take_words(parser, &["IF", "EXISTS"]);
    let name = parse_table_name(parser)?;
    Ok(StatementKind::Drop(Drop {
        what,
        name,
        if_exists,
    }))
}

fn parse_insert(parser: &mut Parser) -> Result<Insert, ParserError> {
    parser.advance_token();
    let into = parser.next_token();
    if is_word(&into.token, "OVERWRITE") {
        return Err(unsupported(&into, "INSERT OVERWRITE"));
    }
    if !is_word(&into.token, "INTO") {
        return parser.expected("INTO", into);
    }
    let table = parse_table_name(parser)?;
    let next = parser.peek_token();
    if is_word(&next.token, "PARTITION") {
        return Err(unsupported(&next, "PARTITION in INSERT"));
    }
    let starts_query = |token: &Token| {
        token == &Token::LParen
            || ["SELECT", "VALUES", "WITH"]
                .iter()
                .any(|word| is_word(token, word))
    };
    let has_columns =
        next.token == Token::LParen && !starts_query(&parser.peek_nth_token_ref(1).token);
    let columns = if has_columns {
        parse_name_list(parser)?
    } else {
        vec![]
    };
    let query = parser.parse_query()?;
    let next = parser.peek_token();
    if is_word(&next.token, "ON") {
        return Err(unsupported(&next, "ON CONFLICT"));
    }
    Ok(Insert {
        table,
        columns,
        query,
    })
}

fn parse_set(parser: &mut Parser) -> Result<StatementKind, ParserError> {
    parser.advance_token();
    let key = parse_key(parser)?;
    parser.expect_token(&Token::Eq)?;
    let value = parse_key(parser)?;
    Ok(StatementKind::Set { key, value })
}

/// A quoted string, or words joined by dots and minus signs (`table.exec.state.ttl`).
fn parse_key(parser: &mut Parser) -> Result<String, ParserError> {
    if matches!(parser.peek_token_ref().token, Token::SingleQuotedString(_)) {
        return parser.parse_literal_string();
    }
    let mut key = String::new();
    loop {
        match &parser.peek_token_ref().token {
            Token::Word(word) => key.push_str(&word.value),
            Token::Number(number, _) => key.push_str(number),
            Token::Period => key.push('.'),
            Token::Minus => key.push('-'),
            _ if key.is_empty() => {
                let found = parser.peek_token();
                return parser.expected("a quoted key or value", found);
            }
            _ => return Ok(key),
        }
        parser.advance_token();
    }
}

/// A table's name. There is one catalog and one database, so a qualified name stands for its last part.
pub(super) fn parse_table_name(parser: &mut Parser) -> Result<Ident, ParserError> {
    let mut parts = parse_name(parser)?;
    match (parts.pop(), parts.len()) {
        (Some(name), 0) => Ok(name),
        (Some(name), _) => Err(ParserError::ParserError(format!(
            "names with a catalog or database are not supported yet, write `{}` alone{}",
            name.value, parts[0].span.start
        ))),
        (None, _) => parser.expected("a name", parser.peek_token()),
    }
}

pub(super) fn parse_name_list(parser: &mut Parser) -> Result<Vec<Ident>, ParserError> {
    parser.expect_token(&Token::LParen)?;
    let names = parser.parse_comma_separated(Parser::parse_identifier)?;
    parser.expect_token(&Token::RParen)?;
    Ok(names)
}
