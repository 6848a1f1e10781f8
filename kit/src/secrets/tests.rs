//! Tests of what counts as a secret, and of texts without them.
//!
//! What comes in: keys, values and lines as people write them. What must come out: secrets known and concealed, and names and references as they are.

use super::*;

#[test]
fn what_is_a_secret_by_its_key_or_its_value_is_known() {
    for (key, value) in [
        ("PASSWORD", "hunter2"),
        ("db.password", "hunter2"),
        ("DB_API_KEY", "abc"),
        ("clientSecret", "abc"),
        ("GITHUB_TOKEN", "ghp_abc"),
        ("REPOSITORY", "https://me:hunter2@git.example/a"),
        ("ANYTHING", "ghp_0123456789abcdefghijklmnop"),
        ("DATABASE", "jdbc:postgresql://db/a?user=a&password=hunter2"),
        ("DATABASE", "Server=db;Password=hunter2;"),
        ("USERS", "[{user: a, password: hunter2}]"),
        ("ENV", "- name: a\n  db: {api_token: hunter2}"),
        ("SETTINGS", "{\"password\": \"hunter2\"}"),
        ("DB_PASS", "hunter2"),
        ("dbPass", "hunter2"),
        ("dbpassword", "hunter2"),
        ("AWS", "AKIAIOSFODNN7EXAMPLE"),
        ("ENV", "PASSWORD=hunter2 USER=a"),
        ("DB_PASSWORD2", "hunter2"),
        ("DB_PASSWORD_2", "hunter2"),
        ("PASSWORD_OF_DATABASE", "hunter2"),
        ("passwordForDb", "hunter2"),
        ("JWT_SECRET", "q8Zr2LmN4tXw"),
        ("WEBHOOK_SECRET", "0f3a9c1d77e24b58"),
        ("APP_SECRET", "3f9ac2d1-77e2-4b58-9c1d-0f3a9c1d77e2"),
        ("ANYTHING", "npm_0123456789abcdefghijklmnopqrstuvwxyz"),
        ("ANYTHING", "AIzaSyA0123456789abcdefghijklmnopqrstuv"),
        (
            "STORAGE",
            "AccountName=a;AccountKey=q8Zr2LmN4tXw==;EndpointSuffix=x",
        ),
        ("HEADER", "Basic dXNlcjpodW50ZXIy"),
        ("HEADER", "Bearer 0123456789abcdef"),
        ("ADMIN_PASSWORD", "20041"),
        ("dbpwd", "hunter2a"),
        ("dbpwd", "20041"),
        ("DB_PASSWORD", "[hunter2a, 1]"),
        ("SETTINGS", "{a: 1, DB_PASSWORD: [hunter2a, 1]}"),
        ("SETTINGS", "{\\\"password\\\": \\\"hunter2a\\\"}"),
        ("AUTH", "Bearer hunter2a"),
        ("AUTH", "Bearer hunterhunter"),
        ("HEADERS", "X: 1, Authorization: Basic hunter2a"),
        ("HTTP_AUTH_HEADER", "Token hunter2a"),
        (
            "ARGS",
            "-H \"Authorization: Bearer hunter2a\" https://a.example",
        ),
        (
            "DOCKER",
            "{\"auths\":{\"r.example\":{\"auth\":\"dXNlcjpodW50ZXIy\"}}}",
        ),
        ("HOOK", "https://hooks.slack.com/services/T0/B0/hunter2a"),
        (
            "STORE",
            "https://a.blob.core.windows.net/b?sv=1&sig=hunter2a",
        ),
        ("IDENTITY", "AGE-SECRET-KEY-1QQ"),
        ("TLS", "-----BEGIN PRIVATE KEY-----\nMEEC\n"),
        ("TLS", "LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCk1FRUM="),
    ] {
        assert!(is_in_clear(key, value), "{key}: {value}");
    }
}

#[test]
fn what_names_a_secret_or_is_another_word_is_none() {
    for (key, value) in [
        ("PASSWORD_FILE", "/run/secrets/password"),
        ("PASSWORD", "/run/secrets/password"),
        ("PASSWORD", "${DB_PASSWORD}"),
        ("PASSWORD", "vault:secret/data/db#password"),
        ("PASSWORD", ""),
        ("TOKEN_URL", "https://login.example/token"),
        ("MAX_TOKEN", "4096"),
        ("ENABLE_PASSWORD", "false"),
        ("USERS", "[{user: a, passwordFile: /run/a}]"),
        ("NOTE", "password: see the manual"),
        ("COMPASS", "north"),
        ("BYPASS", "all"),
        ("ZONE", "ASIA_PACIFIC_REGION_NORTH"),
        ("IMAGE", "registry.example/token-service:1.2"),
        ("HOSTS", "db.example:5432, cache.example:6379"),
        ("SECRET_NAME", "database"),
        ("secretName", "tls-2024-06-01-eu1"),
        ("imagePullSecret", "registry"),
        ("imagePullSecret", "acr-pull-secret-eu1"),
        ("APP_SECRET", "contosoplant4manufacturing"),
        ("REGION", "east-us"),
        ("PACKAGES", "npm_config_registry npm_lifecycle_event_name_x"),
        ("NOTE", "Basic Settings, Basic authentication"),
        ("NOTE", "a bearer of news"),
        ("PASSWORDS_FORBIDDEN", "hunter2"),
        ("FOR_TOKEN_HOLDERS", "all"),
        ("OUT_OF_OFFICE", "all"),
        ("MAX_PASSWORD", "64"),
        ("PASSWORD_DAYS", "1000"),
        ("PASSWORD_MIN_LENGTH", "twelve"),
        ("TOKEN_EXPIRY_SECONDS", "3600"),
        ("SECRET_NAME", "hunter2a"),
        ("KEYBOARD", "german"),
        ("PUBLIC_KEY", "hunter2a"),
        ("PUBLIC_KEY", "-----BEGIN PUBLIC KEY-----\nMEEC\n"),
        ("CERTIFICATE", "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t"),
        ("TOKENIZER", "words"),
        ("PRIMARY_KEY", "id"),
        ("tokenUrl", "https://login.example/token"),
        ("SECRETARY", "hunter2a"),
        ("passwordPolicy", "strict"),
        ("PASSWORD_FILES", "[a, b]"),
        ("DB_PASSWORD", "[${A}, /run/b]"),
        ("credentials", "{user: a, file: /a}"),
        ("AUTH", "basic"),
        ("AUTH", "oauth2"),
        ("AUTH", "Basic authentication"),
        ("AUTH", "Bearer ${TOKEN}"),
        ("NOTE", "Authorization: Bearer tokens of the site are used"),
        ("AUTHOR", "Basic hunter2a"),
    ] {
        assert!(!is_in_clear(key, value), "{key}: {value}");
    }
}

#[test]
fn a_text_is_shown_without_its_secrets_and_is_otherwise_the_same() {
    for (text, shown) in [
        ("  DB_PASSWORD: hunter2, and more", "  DB_PASSWORD: …"),
        ("- password: 1234", "- password: …"),
        ("+  password: \"a\" # b", "+  password: …"),
        (
            "{a: 1, password: hunter2, b: 2}",
            "{a: 1, password: …, b: 2}",
        ),
        ("{\"password\":\"a,b\",\"c\":1}", "{\"password\":…,\"c\":1}"),
        ("url: https://a:hunter2@b/c", "url: https://…@b/c"),
        ("X=1 TOKEN=abc", "X=1 TOKEN=…"),
        ("key: ghp_0123456789abcdef!", "key: …!"),
        (
            "a: 1\npassword: |\n  one\n  two: 2\nb: 2",
            "a: 1\npassword: |\n  …\n  …\nb: 2",
        ),
        ("password:\n  hunter2\nb: 2\n", "password:\n  …\nb: 2\n"),
        (
            "credentials:\n  user: a\n  file: /a\n",
            "credentials:\n  user: a\n  file: /a\n",
        ),
        ("DB_PASSWORD: {a: hunter2a", "DB_PASSWORD: …"),
        ("DB_PASSWORD: [hunter2a, 1]", "DB_PASSWORD: …"),
        ("{DB_PASSWORD: [h, 1], b: 2}", "{DB_PASSWORD: …, b: 2}"),
        (
            "DB_PASSWORD: [\nhunter2a\n]\nb: 2",
            "DB_PASSWORD: [\n…\n…\nb: 2",
        ),
        ("DB_PASSWORD:\n- hunter2a\nb: 2", "DB_PASSWORD:\n…\nb: 2"),
        (
            "DB_PASSWORD:\n  a: hunter2a\n  b: /run/b\nc: 2",
            "DB_PASSWORD:\n  a: …\n  b: /run/b\nc: 2",
        ),
        (
            "X: [{name: DB_PASSWORD, value: hunter2a",
            "X: [{name: DB_PASSWORD, value: …",
        ),
        (
            "- name: DB_PASSWORD\n  value: |\n    hunter2a\n- name: A\n  value: 1",
            "- name: DB_PASSWORD\n  value: |\n    …\n- name: A\n  value: 1",
        ),
        (
            "- name: DB_PASSWORD\n  value: hunter2a\n",
            "- name: DB_PASSWORD\n  value: …\n",
        ),
        (
            "password:\n  valueFrom:\n    secretKeyRef:\n      name: db\n",
            "password:\n  valueFrom:\n    secretKeyRef:\n      name: db\n",
        ),
        (
            "password:\n  type: string\n  minLength: 8\n",
            "password:\n  type: string\n  minLength: 8\n",
        ),
        (
            "k: |\n  -----BEGIN PRIVATE KEY-----\n  MEEC\n  -----END PRIVATE KEY-----\nb: 2",
            "k: |\n  …\n  …\n  …\nb: 2",
        ),
        (
            "k: \"-----BEGIN PRIVATE KEY-----\\nMEEC\\n-----END PRIVATE KEY-----\"\nb: 2",
            "k: \"…\"\nb: 2",
        ),
        ("# -----BEGIN PRIVATE KEY-----\nb: 2", "# …\nb: 2"),
        ("i: AGE-SECRET-KEY-1QQ\nb: 2", "i: …\nb: 2"),
        ("AUTH: Bearer hunter2a", "AUTH: …"),
        ("passwordFile: /run/a", "passwordFile: /run/a"),
        ("password: ${DB}", "password: ${DB}"),
        ("secretName: registry", "secretName: registry"),
        ("replicas: 3\r\nname: a\n", "replicas: 3\r\nname: a\n"),
        ("", ""),
    ] {
        assert_eq!(without_secrets(text), shown, "{text}");
    }
}

#[test]
fn what_stands_in_a_line_is_found_for_what_is_said_of_it() {
    let text = "a: 1\npassword: |\n  two words\nDB_TOKEN: \"hunter2\"\nb: https://u:p@c/d\n";
    let at = |word: &str| text.find(word).unwrap();
    assert_eq!(around(text, at("two")), ["two words"]);
    assert_eq!(around(text, at("hunter2")), ["\"hunter2\""]);
    assert_eq!(around(text, at("DB_TOKEN")), ["\"hunter2\""]);
    assert_eq!(around(text, at("https")), ["b: https://u:p@c/d"]);
    assert!(around(text, 0).is_empty());
    // The end of a text is shown with its last line.
    assert_eq!(around(text, 999), ["b: https://u:p@c/d"]);
    let all = of("USERS", "- name: a\n  password: hunter2\n");
    assert_eq!(all, ["hunter2"]);
    let said = without("`hunter2` is no hunter21", &["\"hunter2\""]);
    assert_eq!(said, "`…` is no hunter21");
}

#[test]
fn a_line_below_a_list_of_secrets_a_key_or_a_secrets_name_is_one() {
    for (text, expected) in [
        ("DB_PASSWORD: {a: 1,\n  b: hunter2a\n", "b: hunter2a"),
        ("X: [{name: DB_PASSWORD,\n  value: hunter2a\n", "hunter2a"),
        (
            "TLS: |\n  -----BEGIN PRIVATE KEY-----\n  hunter2a\n",
            "hunter2a",
        ),
        (
            "kind: Secret\ndata: {p: x, q: hunter2a\n",
            "data: {p: x, q: hunter2a",
        ),
        (
            "{\"kind\": \"Secret\",\n\"data\": {\"p\": \"hunter2a",
            "\"data\": {\"p\": \"hunter2a",
        ),
        ("stringData:\n  p: hunter2a\n", "p: hunter2a"),
        (
            "a: 1\n---\nkind:\n  Secret\ndata:\n  p: hunter2a\n",
            "p: hunter2a",
        ),
    ] {
        let at = text.find("hunter2a").unwrap();
        assert_eq!(around(text, at), [expected], "{text}");
        // What is said of the end is shown with the same line.
        assert_eq!(around(text, text.len() + 1), [expected], "{text}");
    }
    for text in [
        "kind: SealedSecret\nspec: {p: a\n",
        "kind: Secret\n---\nkind: ConfigMap\ndata: {p: a\n",
        "kind: ConfigMap\ndata: {p: Secret\n",
    ] {
        assert!(around(text, text.len()).is_empty(), "{text}");
    }
}

#[test]
fn a_sentence_does_not_quote_the_secret_of_a_key() {
    for (said, shown) in [
        (
            "`DB_PASSWORD=hunter2a` is written twice",
            "`DB_PASSWORD=…` is written twice",
        ),
        (
            "`password: hunter2a b` is written twice",
            "`password: …` is written twice",
        ),
        ("unknown TOKEN=hunter2a given", "unknown TOKEN=… given"),
        (
            "`DB_PASSWORD` is one: write `a=b`",
            "`DB_PASSWORD` is one: write `a=b`",
        ),
        (
            "the password: what it is for",
            "the password: what it is for",
        ),
        ("`password=${DB}`", "`password=${DB}`"),
    ] {
        assert_eq!(without_settings(said), shown);
    }
}
