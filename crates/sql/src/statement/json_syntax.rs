//! The clauses inside JSON function calls: `RETURNING`, `ON EMPTY`, `ON ERROR`, wrappers.

use datafusion_expr::sqlparser::{
    ast::{Expr, Value},
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::{Span, Token},
};

use super::{
    dialect::{call, expect_word, peek_word, string, take_word, take_words},
    type_syntax,
};

/// `JSON_VALUE(s, path [RETURNING t] [behaviour ON EMPTY] [behaviour ON ERROR])` as
/// `$json_value(s, path, type, on-empty, default, on-error, default)`.
pub(crate) fn parse_json_value(parser: &mut Parser, span: Span) -> Result<Expr, ParserError> {
    let (document, path) = parse_head(parser)?;
    let returning = if take_word(parser, "RETURNING") {
        type_syntax::parse_type(parser)?.to_string()
    } else {
        "STRING".to_string()
    };
    let mut empty = ("NULL", null(span));
    let mut error = ("NULL", null(span));
    while let Some((behaviour, default)) = parse_behaviour(parser, span)? {
        expect_word(parser, "ON")?;
        if take_word(parser, "EMPTY") {
            empty = (behaviour, default);
        } else {
            expect_word(parser, "ERROR")?;
            error = (behaviour, default);
        }
    }
    parser.expect_token(&Token::RParen)?;
    Ok(call(
        "$json_value",
        span,
        vec![
            document,
            path,
            string(returning, span),
            string(empty.0, span),
            empty.1,
            string(error.0, span),
            error.1,
        ],
    ))
}

/// `JSON_QUERY(s, path [RETURNING t] [wrapper] [behaviour ON EMPTY] [behaviour ON ERROR])` as
/// `$json_query(s, path, type, wrapper, on-empty, on-error)`.
pub(crate) fn parse_json_query(parser: &mut Parser, span: Span) -> Result<Expr, ParserError> {
    let (document, path) = parse_head(parser)?;
    let returning = if take_word(parser, "RETURNING") {
        type_syntax::parse_type(parser)?.to_string()
    } else {
        "STRING".to_string()
    };
    let wrapper = if take_word(parser, "WITHOUT") {
        take_word(parser, "ARRAY");
        expect_word(parser, "WRAPPER")?;
        "WITHOUT"
    } else if take_word(parser, "WITH") {
        let conditional = take_word(parser, "CONDITIONAL");
        if !conditional {
            take_word(parser, "UNCONDITIONAL");
        }
        take_word(parser, "ARRAY");
        expect_word(parser, "WRAPPER")?;
        if conditional {
            "CONDITIONAL"
        } else {
            "UNCONDITIONAL"
        }
    } else {
        "WITHOUT"
    };
    let (mut empty, mut error) = ("NULL", "NULL");
    loop {
        let behaviour = if take_word(parser, "NULL") {
            "NULL"
        } else if take_word(parser, "ERROR") {
            "ERROR"
        } else if take_words(parser, &["EMPTY", "ARRAY"]) {
            "EMPTY ARRAY"
        } else if take_words(parser, &["EMPTY", "OBJECT"]) {
            "EMPTY OBJECT"
        } else {
            break;
        };
        expect_word(parser, "ON")?;
        if take_word(parser, "EMPTY") {
            empty = behaviour;
        } else {
            expect_word(parser, "ERROR")?;
            error = behaviour;
        }
    }
    parser.expect_token(&Token::RParen)?;
    Ok(call(
        "$json_query",
        span,
        vec![
            document,
            path,
            string(returning, span),
            string(wrapper, span),
            string(empty, span),
            string(error, span),
        ],
    ))
}

/// `JSON_EXISTS(s, path [TRUE | FALSE | UNKNOWN | ERROR ON ERROR])`.
pub(crate) fn parse_json_exists(parser: &mut Parser, span: Span) -> Result<Expr, ParserError> {
    let (document, path) = parse_head(parser)?;
    let behaviour = ["TRUE", "FALSE", "UNKNOWN", "ERROR"]
        .into_iter()
        .find(|word| take_word(parser, word));
    if behaviour.is_some() {
        expect_word(parser, "ON")?;
        expect_word(parser, "ERROR")?;
    }
    parser.expect_token(&Token::RParen)?;
    let behaviour = string(behaviour.unwrap_or("FALSE"), span);
    Ok(call("$json_exists", span, vec![document, path, behaviour]))
}

/// `JSON_OBJECT([KEY k VALUE v, …] [NULL | ABSENT ON NULL])` as
/// `$json_object('NULL', k, v, …)`.
pub(crate) fn parse_json_object(parser: &mut Parser, span: Span) -> Result<Expr, ParserError> {
    parser.advance_token();
    parser.expect_token(&Token::LParen)?;
    let mut entries = vec![];
    while parser.peek_token_ref().token != Token::RParen && !at_null_clause(parser) {
        take_word(parser, "KEY");
        entries.push(parser.parse_expr()?);
        if !take_word(parser, "VALUE") {
            parser.expect_token(&Token::Colon)?;
        }
        entries.push(parser.parse_expr()?);
        if !parser.consume_token(&Token::Comma) {
            break;
        }
    }
    let mut args = vec![string(parse_null_clause(parser, "NULL")?, span)];
    args.extend(entries);
    parser.expect_token(&Token::RParen)?;
    Ok(call("$json_object", span, args))
}

/// `JSON_ARRAY([v, …] [NULL | ABSENT ON NULL])` as `$json_array('ABSENT', v, …)`.
pub(crate) fn parse_json_array(parser: &mut Parser, span: Span) -> Result<Expr, ParserError> {
    parser.advance_token();
    parser.expect_token(&Token::LParen)?;
    let mut values = vec![];
    while parser.peek_token_ref().token != Token::RParen && !at_null_clause(parser) {
        values.push(parser.parse_expr()?);
        if !parser.consume_token(&Token::Comma) {
            break;
        }
    }
    let mut args = vec![string(parse_null_clause(parser, "ABSENT")?, span)];
    args.extend(values);
    parser.expect_token(&Token::RParen)?;
    Ok(call("$json_array", span, args))
}

fn at_null_clause(parser: &Parser) -> bool {
    peek_word(parser, "ABSENT")
        || (peek_word(parser, "NULL")
            && super::dialect::is_word(&parser.peek_nth_token_ref(1).token, "ON"))
}

fn parse_null_clause(
    parser: &mut Parser,
    default: &'static str,
) -> Result<&'static str, ParserError> {
    if take_words(parser, &["NULL", "ON", "NULL"]) {
        return Ok("NULL");
    }
    if take_word(parser, "ABSENT") {
        expect_word(parser, "ON")?;
        expect_word(parser, "NULL")?;
        return Ok("ABSENT");
    }
    Ok(default)
}

fn parse_head(parser: &mut Parser) -> Result<(Expr, Expr), ParserError> {
    parser.advance_token();
    parser.expect_token(&Token::LParen)?;
    let document = parser.parse_expr()?;
    parser.expect_token(&Token::Comma)?;
    let path = parser.parse_expr()?;
    Ok((document, path))
}

fn parse_behaviour(
    parser: &mut Parser,
    span: Span,
) -> Result<Option<(&'static str, Expr)>, ParserError> {
    if take_word(parser, "NULL") {
        return Ok(Some(("NULL", null(span))));
    }
    if take_word(parser, "ERROR") {
        return Ok(Some(("ERROR", null(span))));
    }
    if parser.parse_keyword(Keyword::DEFAULT) {
        return Ok(Some(("DEFAULT", parser.parse_expr()?)));
    }
    Ok(None)
}

fn null(span: Span) -> Expr {
    Expr::Value(Value::Null.with_span(span))
}
