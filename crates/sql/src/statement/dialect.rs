//! Flink's lexical rules and the expression forms that the parser does not know.
//!
//! Special forms become calls of functions whose names start with `$`, which no script can
//! write: `$cast(x, 'INT')`, `$try_cast`, `$table(t)`, `$session_table(t, keys…)`, `$map`,
//! `$is_json(x, 'VALUE')`, `$json_value`, ….

use datafusion_expr::sqlparser::{
    ast::{
        Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments,
        Ident, ObjectName, Value,
    },
    dialect::{Dialect, Precedence},
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::{Span, Token},
};

use super::{json_syntax, type_syntax};

/// Flink SQL.
#[derive(Debug)]
pub(crate) struct FlinkDialect;

impl Dialect for FlinkDialect {
    fn is_identifier_start(&self, ch: char) -> bool {
        ch.is_alphabetic() || ch == '_'
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        ch.is_alphanumeric() || ch == '_' || ch == '$'
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        ch == '`'
    }

    fn identifier_quote_style(&self, _identifier: &str) -> Option<char> {
        Some('`')
    }

    fn supports_unicode_string_literal(&self) -> bool {
        true
    }

    fn supports_filter_during_aggregation(&self) -> bool {
        true
    }

    fn supports_table_versioning(&self) -> bool {
        true
    }

    fn supports_group_by_expr(&self) -> bool {
        true
    }

    fn supports_match_recognize(&self) -> bool {
        true
    }

    fn require_interval_qualifier(&self) -> bool {
        false
    }

    fn is_reserved_for_identifier(&self, kw: Keyword) -> bool {
        matches!(
            kw,
            Keyword::CASE
                | Keyword::CAST
                | Keyword::EXISTS
                | Keyword::INTERVAL
                | Keyword::FROM
                | Keyword::GROUP
                | Keyword::HAVING
                | Keyword::NOT
                | Keyword::SELECT
                | Keyword::THEN
                | Keyword::UNION
                | Keyword::WHEN
                | Keyword::WHERE
        )
    }

    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        let [first, second] = parser.peek_tokens_with_location::<2>();
        let Token::Word(word) = &first.token else {
            return None;
        };
        if word.quote_style.is_some() {
            return None;
        }
        let name = word.value.to_ascii_uppercase();
        let span = first.span;
        let parse: fn(&mut Parser, Span) -> Result<Expr, ParserError> =
            match (name.as_str(), &second.token) {
                ("CAST", Token::LParen) => |p, s| parse_cast(p, s, "$cast"),
                ("TRY_CAST", Token::LParen) => |p, s| parse_cast(p, s, "$try_cast"),
                ("TABLE", Token::Word(_)) => parse_table_argument,
                ("MAP", Token::LBracket) => parse_map,
                ("JSON_VALUE", Token::LParen) => json_syntax::parse_json_value,
                ("JSON_QUERY", Token::LParen) => json_syntax::parse_json_query,
                ("JSON_EXISTS", Token::LParen) => json_syntax::parse_json_exists,
                ("JSON_OBJECT", Token::LParen) => json_syntax::parse_json_object,
                ("JSON_ARRAY", Token::LParen) => json_syntax::parse_json_array,
                // SUBSTR and CEILING take the plain call syntax only, as functions do.
                ("SUBSTR" | "CEILING", Token::LParen) => |p, _| {
                    let name = p.parse_object_name(false)?;
                    p.parse_function(name)
                },
                _ => return None,
            };
        Some(parse(parser, span))
    }

    fn parse_infix(
        &self,
        parser: &mut Parser,
        expr: &Expr,
        _precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        let tokens = parser.peek_tokens_with_location::<3>();
        let word = |i: usize| match &tokens[i].token {
            Token::Word(word) => word.value.to_ascii_uppercase(),
            _ => String::new(),
        };
        let (first, second, third) = (word(0), word(1), word(2));
        match (first.as_str(), second.as_str(), third.as_str()) {
            ("IS", "JSON", _) => Some(parse_is_json(parser, expr, 2, false, tokens[0].span)),
            ("IS", "NOT", "JSON") => Some(parse_is_json(parser, expr, 3, true, tokens[0].span)),
            ("BETWEEN", "SYMMETRIC" | "ASYMMETRIC", _) => {
                parser.advance_token();
                parser.advance_token();
                Some(parse_between(parser, expr, second == "SYMMETRIC", false))
            }
            ("NOT", "BETWEEN", "SYMMETRIC" | "ASYMMETRIC") => {
                (0..3).for_each(|_| parser.advance_token());
                Some(parse_between(parser, expr, third == "SYMMETRIC", true))
            }
            _ => None,
        }
    }
}

/// A call of `name` with positional arguments.
pub(crate) fn call(name: &str, span: Span, args: Vec<Expr>) -> Expr {
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::with_span(span, name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: args
                .into_iter()
                .map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)))
                .collect(),
            clauses: vec![],
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: vec![],
    })
}

/// A string literal.
pub(crate) fn string(value: impl Into<String>, span: Span) -> Expr {
    Expr::Value(Value::SingleQuotedString(value.into()).with_span(span))
}

/// Whether the next token is this word, whatever its case. Quoted identifiers are not words.
pub(crate) fn peek_word(parser: &Parser, word: &str) -> bool {
    is_word(&parser.peek_token_ref().token, word)
}

/// Whether the token is this word, whatever its case.
pub(crate) fn is_word(token: &Token, word: &str) -> bool {
    matches!(token, Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
}

/// Takes the next token if it is this word.
pub(crate) fn take_word(parser: &mut Parser, word: &str) -> bool {
    let found = peek_word(parser, word);
    if found {
        parser.advance_token();
    }
    found
}

/// Takes the words in order, or none of them.
pub(crate) fn take_words(parser: &mut Parser, words: &[&str]) -> bool {
    let found = words
        .iter()
        .enumerate()
        .all(|(i, word)| is_word(&parser.peek_nth_token_ref(i).token, word));
    if found {
        words.iter().for_each(|_| parser.advance_token());
    }
    found
}

/// Takes the word or says what was expected.
pub(crate) fn expect_word(parser: &mut Parser, word: &str) -> Result<(), ParserError> {
    if take_word(parser, word) {
        return Ok(());
    }
    let found = parser.peek_token();
    parser.expected(word, found)
}

fn parse_cast(parser: &mut Parser, span: Span, name: &str) -> Result<Expr, ParserError> {
    parser.advance_token();
    parser.expect_token(&Token::LParen)?;
    let value = parser.parse_expr()?;
    parser.expect_keyword_is(Keyword::AS)?;
    let type_span = parser.peek_token_ref().span;
    let flink_type = type_syntax::parse_type(parser)?;
    let end = parser.expect_token(&Token::RParen)?.span;
    let span = Span::new(span.start, end.end);
    Ok(call(
        name,
        span,
        vec![value, string(flink_type.to_string(), type_span)],
    ))
}

/// `TABLE t [PARTITION BY a, b]` as an argument of a window function.
fn parse_table_argument(parser: &mut Parser, span: Span) -> Result<Expr, ParserError> {
    parser.advance_token();
    let mut args = vec![Expr::CompoundIdentifier(parse_name(parser)?)];
    if take_words(parser, &["PARTITION", "BY"]) {
        let parenthesised = parser.consume_token(&Token::LParen);
        loop {
            args.push(parser.parse_expr()?);
            let next_is_key =
                parser.peek_token_ref().token == Token::Comma && !ends_partition_keys(parser);
            if !next_is_key {
                break;
            }
            parser.advance_token();
        }
        if parenthesised {
            parser.expect_token(&Token::RParen)?;
        }
    }
    Ok(call("$table", span, args))
}

/// Whether what follows the next comma is the window function's next argument.
fn ends_partition_keys(parser: &Parser) -> bool {
    let after = &parser.peek_nth_token_ref(1).token;
    is_word(after, "DESCRIPTOR")
        || is_word(after, "INTERVAL")
        || parser.peek_nth_token_ref(2).token == Token::RArrow
}

/// A possibly qualified name.
pub(crate) fn parse_name(parser: &mut Parser) -> Result<Vec<Ident>, ParserError> {
    let mut parts = vec![parser.parse_identifier()?];
    while parser.consume_token(&Token::Period) {
        parts.push(parser.parse_identifier()?);
    }
    Ok(parts)
}

fn parse_map(parser: &mut Parser, span: Span) -> Result<Expr, ParserError> {
    parser.advance_token();
    parser.expect_token(&Token::LBracket)?;
    let args = if parser.peek_token_ref().token == Token::RBracket {
        vec![]
    } else {
        parser.parse_comma_separated(Parser::parse_expr)?
    };
    parser.expect_token(&Token::RBracket)?;
    Ok(call("$map", span, args))
}

fn parse_is_json(
    parser: &mut Parser,
    expr: &Expr,
    words: usize,
    negated: bool,
    span: Span,
) -> Result<Expr, ParserError> {
    (0..words).for_each(|_| parser.advance_token());
    let kind = ["VALUE", "SCALAR", "ARRAY", "OBJECT"]
        .into_iter()
        .find(|word| take_word(parser, word))
        .unwrap_or("VALUE");
    let test = call("$is_json", span, vec![expr.clone(), string(kind, span)]);
    Ok(if negated {
        Expr::UnaryOp {
            op: datafusion_expr::sqlparser::ast::UnaryOperator::Not,
            expr: Box::new(test),
        }
    } else {
        test
    })
}

fn parse_between(
    parser: &mut Parser,
    expr: &Expr,
    symmetric: bool,
    negated: bool,
) -> Result<Expr, ParserError> {
    let precedence = FlinkDialect.prec_value(Precedence::Between);
    let low = parser.parse_subexpr(precedence)?;
    parser.expect_keyword_is(Keyword::AND)?;
    let high = parser.parse_subexpr(precedence)?;
    let test = if symmetric {
        call(
            "$between_symmetric",
            Span::empty(),
            vec![expr.clone(), low, high],
        )
    } else {
        Expr::Between {
            expr: Box::new(expr.clone()),
            negated: false,
            low: Box::new(low),
            high: Box::new(high),
        }
    };
    Ok(if negated {
        Expr::UnaryOp {
            op: datafusion_expr::sqlparser::ast::UnaryOperator::Not,
            expr: Box::new(Expr::Nested(Box::new(test))),
        }
    } else {
        Expr::Nested(Box::new(test))
    })
}
