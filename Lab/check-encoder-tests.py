#!/usr/bin/env python3
"""Runs the tests of Foundation's JSON coders on ForgeCoding.

    Lab/check-encoder-tests.py FILE [--keep DIRECTORY]

FILE is `Tests/FoundationEssentialsTests/JSONEncoderTests.swift` of a checkout of swiftlang/swift-foundation. A package
that is made for it has ForgeCoding and, in place of the coders of Foundation, two that encode to JSON text and decode
from it through the encoded form. Tests of what ForgeCoding does not have are left out; they are listed with the reasons.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

# Tests that do not apply.
LEFT_OUT = {
    "a strategy for dates, data or floating-point numbers": """
        encodingDateSecondsSince1970 encodingDateMillisecondsSince1970 encodingDateCustom encodingDateCustomEmpty
        encodingData encodingDataCustom encodingDataCustomEmpty encodingDataBase64 encodingDateISO8601 infiniteDate
        encodingNonConformingFloats encodingNonConformingFloatStrings directlyEncodedArrays
        encoderStateThrowOnEncodeCustomDate encoderStateThrowOnEncodeCustomData decoderStateThrowOnDecodeCustomDate
        decoderStateThrowOnDecodeCustomData""",
    "a strategy for keys": """
        encodingKeyStrategyCustom encodingKeyStrategyPath decodingKeyStrategyCustom keyStrategyDuplicateKeys
        decodingDictionaryStringKeyConversionUntouched decodingDictionaryFailureKeyPath decodingKeyStrategyCamel
        encodingDictionaryStringKeyConversionUntouched keyStrategySnakeGeneratedAndCustom
        decodingDictionaryFailureKeyPathNested decodingKeyStrategyCamelGenerated encodingKeyStrategySnakeGenerated
        encodingDictionaryFailureKeyPath encodingDictionaryFailureKeyPathNested encodingKeyStrategySnake""",
    "JSON5": "json5Numbers json5Null json5EsotericErrors json5Strings json5AssumedDictionary json5PassJSONFiles json5Spec",
    "files of swift-foundation; those of JSONTestSuite are read by check-coding.py": "jsonPassTests jsonFailTests",
    "text in UTF-16 or UTF-32": "bomPrefixes twoByteUTF16Inputs",
    "a text without the braces of an object": "assumesTopLevelDictionary assumesTopLevelDictionaryTrailingNumber",
    "types that are encoded with a configuration": "encodingTopLevelWithConfiguration",
    "the text form: escaped slashes, spaces before colons": """
        jsonEscapedForwardSlashes interceptURL encodingOutputFormattingPrettyPrintedSortedKeys""",
    "what RFC 8259 does not permit": "jsonPermitsTrailingCommas",
    "more than 64 levels": "depthTraversal",
    "a limit of Foundation's decoder, as a comment in the test says": "int128SlowPath uint128SlowPath",
}

SHIM = """
import ForgeCoding
import Foundation

final class JSONEncoder {
    struct OutputFormatting: OptionSet {
        let rawValue: Int
        static let prettyPrinted = OutputFormatting(rawValue: 1)
        static let sortedKeys = OutputFormatting(rawValue: 2)
        static let withoutEscapingSlashes = OutputFormatting(rawValue: 4)
    }
    enum DateEncodingStrategy { case deferredToDate }
    enum DataEncodingStrategy { case base64 }
    enum KeyEncodingStrategy { case useDefaultKeys }
    enum NonConformingFloatEncodingStrategy { case `throw` }

    var outputFormatting: OutputFormatting = []
    var dateEncodingStrategy = DateEncodingStrategy.deferredToDate
    var dataEncodingStrategy = DataEncodingStrategy.base64
    var keyEncodingStrategy = KeyEncodingStrategy.useDefaultKeys
    var nonConformingFloatEncodingStrategy = NonConformingFloatEncodingStrategy.throw

    func encode<Value: Encodable>(_ value: Value) throws -> Data {
        var tree = try CodedValue(decoding: BinaryEncoder().encode(value))
        if outputFormatting.contains(.sortedKeys) { tree = tree.sorted }
        return Data(try tree.json(prettyPrinted: outputFormatting.contains(.prettyPrinted)).utf8)
    }
}

final class JSONDecoder {
    enum DateDecodingStrategy { case deferredToDate }
    enum DataDecodingStrategy { case base64 }
    enum KeyDecodingStrategy { case useDefaultKeys }
    enum NonConformingFloatDecodingStrategy { case `throw` }

    var dateDecodingStrategy = DateDecodingStrategy.deferredToDate
    var dataDecodingStrategy = DataDecodingStrategy.base64
    var keyDecodingStrategy = KeyDecodingStrategy.useDefaultKeys
    var nonConformingFloatDecodingStrategy = NonConformingFloatDecodingStrategy.throw
    var allowsJSON5 = false
    var assumesTopLevelDictionary = false

    func decode<Value: Decodable>(_ type: Value.Type, from data: Data) throws -> Value {
        let bytes: [UInt8]
        do {
            guard let text = String(validating: data, as: UTF8.self) else {
                throw CodingFailure(.decode, .corrupted("the text is not UTF-8"))
            }
            bytes = try CodedValue(json: text).encoded()
        } catch {
            throw DecodingError.dataCorrupted(
                DecodingError.Context(codingPath: [], debugDescription: "not JSON", underlyingError: error))
        }
        return try BinaryDecoder().decode(type, from: bytes)
    }
}

extension CodedValue {
    fileprivate var sorted: CodedValue {
        switch self {
        case .array(let elements): .array(elements.map(\\.sorted))
        case .map(let entries):
            .map(entries.map { Entry($0.key, $0.value.sorted) }.sorted { "\\($0.key)" < "\\($1.key)" })
        default: self
        }
    }
}

func testData(forResource: String, withExtension: String, subdirectory: String) throws -> Data {
    throw CocoaError(.fileNoSuchFile)
}
"""

MANIFEST = """// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "EncoderTests",
    targets: [
        .target(
            name: "ForgeCoding", exclude: ["ForgeCoding.docc"],
            swiftSettings: [
                .enableUpcomingFeature("ExistentialAny"), .enableUpcomingFeature("InternalImportsByDefault"),
                .enableUpcomingFeature("MemberImportVisibility"), .strictMemorySafety(),
            ]),
        .testTarget(name: "EncoderTests", dependencies: ["ForgeCoding"], swiftSettings: [.swiftLanguageMode(.v5)]),
    ])
"""


def without_test(text, name):
    """The tests without one, which ends with the first brace in its column that another declaration follows."""
    head = re.search(r"\n    @Test\b(?:(?!\n    @Test\b)[^{])*?\bfunc " + re.escape(name) + r"\(", text)
    if not head:
        sys.exit(f"there is no test {name}: the list of those that do not apply is not that of this file")
    end = re.compile(r"\n    \}\n(?=\s*(?:\}|@Test|//|private |fileprivate |func |var |struct |#))").search(text, head.end())
    return text[:head.start()] + "\n" + text[end.end():]


def tests(text):
    """The names of the tests in a text."""
    return set(re.findall(r"@Test\b(?:\([^)]*\))?\s*(?:@MainActor[^\n]*\s*)?func (\w+)\(", text))


def prepared(text):
    text, count = re.subn(
        r"#if canImport\(FoundationEssentials\)\n.*?#endif\n", "import ForgeCoding\nimport Foundation\n", text, count=1,
        flags=re.DOTALL)
    assert count == 1, "the imports are others"
    # The exit tests and those of the framework on Apple's platforms.
    text = re.sub(r"\n *#if FOUNDATION_(?:EXIT_TESTS|FRAMEWORK)\n.*?\n *#endif(?=\n)", "\n", text, flags=re.DOTALL)
    text = text.replace("[.utf8, .utf16BigEndian, .utf16LittleEndian, .utf32BigEndian, .utf32LittleEndian]", "[.utf8]")
    for names in LEFT_OUT.values():
        for name in names.split():
            text = without_test(text, name)
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file")
    parser.add_argument("--keep", help="where the package is made and kept")
    options = parser.parse_args()
    with open(options.file) as file:
        text = prepared(file.read())
    sources = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../Sources/ForgeCoding")
    with tempfile.TemporaryDirectory() as temporary:
        package = options.keep or os.path.join(temporary, "EncoderTests")
        shutil.copytree(sources, os.path.join(package, "Sources/ForgeCoding"), dirs_exist_ok=True)
        os.makedirs(os.path.join(package, "Tests/EncoderTests"), exist_ok=True)
        for path, content in {
            "Package.swift": MANIFEST, "Tests/EncoderTests/Shim.swift": SHIM,
            "Tests/EncoderTests/JSONEncoderTests.swift": text,
        }.items():
            with open(os.path.join(package, path), "w") as file:
                file.write(content)
        output = subprocess.run(
            ["swift", "test", "--package-path", package], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            check=False).stdout
    results = dict(re.findall(
        r"^[✔✘] Test (\w+)\(.*?\)(?: with \d+ test cases?)? (passed|failed)", output, re.MULTILINE))
    missing = tests(text) - results.keys()
    failed = sorted(name for name, result in results.items() if result == "failed")
    if missing or failed:
        print(output[-20_000:], file=sys.stderr)
    for reason, names in LEFT_OUT.items():
        print(f"left out, {reason}: {', '.join(names.split())}")
    print(f"encoder tests: {len(results)}, failed: {len(failed)}, not run: {len(missing)}", *failed, *sorted(missing))
    sys.exit(1 if failed or missing or not results else 0)


if __name__ == "__main__":
    main()
