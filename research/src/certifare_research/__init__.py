"""The experiments of the FARE paper with certifare: data sets, published methods, evaluation, and pages."""
