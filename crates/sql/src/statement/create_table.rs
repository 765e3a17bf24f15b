//! `CREATE TABLE`.

use std::collections::BTreeMap;

use datafusion_expr::sqlparser::{
    ast::Ident,
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::Token,
};

use super::{
    ColumnDefinition, ColumnDefinitionKind, CreateTable, WatermarkDefinition,
    dialect::{expect_word, is_word, peek_word, take_word, take_words},
    script::{parse_name_list, parse_table_name},
    type_syntax,
};
use crate::diagnostic::cover;

/// Reads what follows `CREATE [TEMPORARY] TABLE`.
pub(super) fn parse_create_table(parser: &mut Parser) -> Result<CreateTable, ParserError> {
    let if_not_exists = take_words(parser, &["IF", "NOT", "EXISTS"]);
    let name = parse_table_name(parser)?;
    let mut table = CreateTable {
        name,
        if_not_exists,
        columns: vec![],
        watermark: None,
        primary_key: vec![],
        partition_by: vec![],
        options: BTreeMap::new(),
    };
    if parser.consume_token(&Token::LParen) {
        loop {
            parse_element(parser, &mut table)?;
            if !parser.consume_token(&Token::Comma) {
                break;
            }
        }
        parser.expect_token(&Token::RParen)?;
    }
    take_comment(parser)?;
    let next = parser.peek_token();
    if is_word(&next.token, "DISTRIBUTED") {
        return refuse(parser, "DISTRIBUTED BY");
    }
    if take_words(parser, &["PARTITIONED", "BY"]) {
        table.partition_by = parse_name_list(parser)?;
    }
    if parser.parse_keyword(Keyword::WITH) {
        table.options = parse_options(parser)?;
    }
    for clause in ["LIKE", "AS"] {
        if peek_word(parser, clause) {
            let what = if clause == "AS" {
                "CREATE TABLE AS SELECT"
            } else {
                clause
            };
            return refuse(parser, what);
        }
    }
    Ok(table)
}

/// Takes `COMMENT '…'`.
pub(super) fn take_comment(parser: &mut Parser) -> Result<(), ParserError> {
    if take_word(parser, "COMMENT") {
        parser.parse_literal_string()?;
    }
    Ok(())
}

fn refuse<T>(parser: &mut Parser, clause: &str) -> Result<T, ParserError> {
    Err(ParserError::ParserError(format!(
        "{clause} is not supported yet{}",
        parser.peek_token_ref().span.start
    )))
}

fn parse_options(parser: &mut Parser) -> Result<BTreeMap<String, String>, ParserError> {
    parser.expect_token(&Token::LParen)?;
    let mut options = BTreeMap::new();
    loop {
        let token = parser.peek_token();
        let key = parser.parse_literal_string()?;
        parser.expect_token(&Token::Eq)?;
        let value = parser.parse_literal_string()?;
        if options.insert(key.clone(), value).is_some() {
            return Err(ParserError::ParserError(format!(
                "the option '{key}' is given twice{}",
                token.span.start
            )));
        }
        if !parser.consume_token(&Token::Comma) {
            break;
        }
    }
    parser.expect_token(&Token::RParen)?;
    Ok(options)
}

fn parse_element(parser: &mut Parser, table: &mut CreateTable) -> Result<(), ParserError> {
    let second = &parser.peek_nth_token_ref(1).token;
    if peek_word(parser, "CONSTRAINT") && matches!(second, Token::Word(_)) {
        parser.advance_token();
        parser.parse_identifier()?;
        return parse_primary_key(parser, table);
    }
    if peek_word(parser, "PRIMARY") && is_word(second, "KEY") {
        return parse_primary_key(parser, table);
    }
    if peek_word(parser, "UNIQUE") && second == &Token::LParen {
        return refuse(parser, "UNIQUE");
    }
    if peek_word(parser, "WATERMARK") && is_word(second, "FOR") {
        let start = parser.peek_token_ref().span;
        if table.watermark.is_some() {
            return Err(ParserError::ParserError(format!(
                "a table has at most one WATERMARK{}",
                start.start
            )));
        }
        parser.advance_token();
        parser.advance_token();
        let column = parser.parse_identifier()?;
        if parser.peek_token_ref().token == Token::Period {
            return refuse(parser, "WATERMARK FOR a nested field");
        }
        parser.expect_keyword_is(Keyword::AS)?;
        let expr = parser.parse_expr()?;
        let span = cover(start, parser.get_previous_token().span);
        table.watermark = Some(WatermarkDefinition { column, expr, span });
        return Ok(());
    }
    parse_column(parser, table)
}

fn parse_primary_key(parser: &mut Parser, table: &mut CreateTable) -> Result<(), ParserError> {
    let token = parser.peek_token();
    parser.expect_keyword_is(Keyword::PRIMARY)?;
    parser.expect_keyword_is(Keyword::KEY)?;
    let columns = parse_name_list(parser)?;
    expect_not_enforced(parser)?;
    set_primary_key(table, columns, &token)
}

fn set_primary_key(
    table: &mut CreateTable,
    columns: Vec<Ident>,
    token: &datafusion_expr::sqlparser::tokenizer::TokenWithSpan,
) -> Result<(), ParserError> {
    if !table.primary_key.is_empty() {
        return Err(ParserError::ParserError(format!(
            "a table has at most one PRIMARY KEY{}",
            token.span.start
        )));
    }
    table.primary_key = columns;
    Ok(())
}

/// Nothing checks keys, so a script has to say so.
fn expect_not_enforced(parser: &mut Parser) -> Result<(), ParserError> {
    expect_word(parser, "NOT")?;
    expect_word(parser, "ENFORCED")
}

fn parse_column(parser: &mut Parser, table: &mut CreateTable) -> Result<(), ParserError> {
    let name = parser.parse_identifier()?;
    if parser.parse_keyword(Keyword::AS) {
        let kind = ColumnDefinitionKind::Computed(Box::new(parser.parse_expr()?));
        table.columns.push(ColumnDefinition { name, kind });
        return take_comment(parser);
    }
    let flink_type = type_syntax::parse_type(parser)?;
    let mut nullable = type_syntax::take_nullability(parser);
    let token = parser.peek_token();
    if take_words(parser, &["PRIMARY", "KEY"]) {
        expect_not_enforced(parser)?;
        set_primary_key(table, vec![name.clone()], &token)?;
        nullable = false;
    }
    let kind = if take_word(parser, "METADATA") {
        let key = if parser.parse_keyword(Keyword::FROM) {
            parser.parse_literal_string()?
        } else {
            name.value.clone()
        };
        ColumnDefinitionKind::Metadata {
            flink_type,
            nullable,
            key,
            is_virtual: take_word(parser, "VIRTUAL"),
        }
    } else {
        ColumnDefinitionKind::Physical {
            flink_type,
            nullable,
        }
    };
    table.columns.push(ColumnDefinition { name, kind });
    take_comment(parser)
}
